package idle_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// A census shows which connections will end first, and how many will end soon if nothing
// moves.
func ExampleTracker_Census() {
	tracker, err := idle.New(idle.Policy{Name: "login", PhaseTimeout: 50 * time.Second}, &idle.Options{
		Label: func(owner any) string { return owner.(*session).name },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer tracker.Close()
	for name, limit := range map[string]time.Duration{"alice": 0, "bob": 10 * time.Minute, "carol": time.Hour} {
		s := &session{name: name}
		if err := tracker.Track(&s.Conn, s, &hooks); err != nil {
			log.Fatal(err)
		}
		if limit == 0 {
			continue // alice hasn't logged in
		}
		phase, err := tracker.Phase(idle.Policy{Name: "chat", IdleTimeout: limit})
		if err != nil {
			log.Fatal(err)
		}
		s.Enter(phase)
	}
	ctx := context.Background()
	census, err := tracker.Census(ctx, idle.Query{Sort: idle.NextToEnd})
	if err != nil {
		log.Fatal(err)
	}
	page, err := census.Page(ctx, 0, 2)
	if err != nil {
		log.Fatal(err)
	}
	for _, info := range page {
		fmt.Println(info.Label, "ends by", info.EndsBy, "in about", info.EndsIn.Round(time.Minute))
	}
	fmt.Println(census.Ending(time.Second), "within a second,", census.Ending(time.Minute), "within a minute")
	// Output:
	// alice ends by phase in about 1m0s
	// bob ends by idle in about 10m0s
	// 0 within a second, 1 within a minute
}

// A presence service learns of each connection that has ended, in batches.
func ExampleOptions_onEnds() {
	told := make(chan idle.End, 10)
	tracker, err := idle.New(idle.Policy{IdleTimeout: 50 * time.Millisecond}, &idle.Options{
		Label: func(owner any) string { return owner.(*session).name },
		OnEnds: func(ends []idle.End) {
			for _, end := range ends {
				told <- end // a copy, as ends is only lent
			}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer tracker.Close()
	s := &session{name: "dave", ended: make(chan *idle.TimeoutError, 1)}
	if err := tracker.Track(&s.Conn, s, &hooks); err != nil {
		log.Fatal(err)
	}
	end := <-told
	fmt.Println(end.Label, "has gone by", end.Reason)
	// Output: dave has gone by idle
}
