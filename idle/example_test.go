package idle_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// The error of a read or a write tells which limit was passed. To a server that knows
// nothing of it, it is an expired deadline.
func ExampleTimeoutError() {
	err := fmt.Errorf("reading a command: %w", &idle.TimeoutError{
		Reason: idle.ReasonPhase, Setting: "PhaseTimeout", Phase: "command",
		Limit: 10 * time.Second, Elapsed: 10010 * time.Millisecond,
	})
	fmt.Println(err)
	var timeout *idle.TimeoutError
	if errors.As(err, &timeout) {
		fmt.Println(timeout.Phase, timeout.Setting, timeout.Limit)
	}
	fmt.Println(errors.Is(err, os.ErrDeadlineExceeded))
	// Output:
	// reading a command: i/o timeout: command: PhaseTimeout of 10s passed after 10.01s
	// command PhaseTimeout 10s
	// true
}

// session is a connection of some kind that no adapter knows. Its first field is what
// its deadlines are computed from.
type session struct {
	idle.Conn
	name  string
	ended chan *idle.TimeoutError
}

// hooks are for all sessions.
var hooks = idle.Hooks{
	Expire: func(owner any, err *idle.TimeoutError) { owner.(*session).ended <- err },
}

// An adapter embeds a Conn in its connections, tracks them, and reports what it sees.
func ExampleTracker() {
	tracker, err := idle.New(idle.Policy{IdleTimeout: 50 * time.Millisecond}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer tracker.Close()
	s := &session{name: "alice", ended: make(chan *idle.TimeoutError, 1)}
	if err := tracker.Track(&s.Conn, s, &hooks); err != nil {
		log.Fatal(err)
	}
	s.Touch() // whenever something arrives
	timeout := <-s.ended
	fmt.Println(s.name, timeout.Setting, timeout.Limit)
	fmt.Println(s.Stop(), tracker.Stats().TimedOut)
	// Output:
	// alice IdleTimeout 50ms
	// false map[idle:1]
}

// A connection begins under the tracker's policy, and enters other ones. A phase takes
// two microseconds to make and less than a kilobyte, so each client can have its own.
// Clients that are alike can share one.
func ExampleTracker_Phase() {
	tracker, err := idle.New(idle.Policy{Name: "login", PhaseTimeout: 10 * time.Second}, &idle.Options{
		Tick: 10 * time.Millisecond, // the default, which suits the policy above, would be too coarse for what follows
	})
	if err != nil {
		log.Fatal(err)
	}
	defer tracker.Close()
	s := &session{name: "bob", ended: make(chan *idle.TimeoutError, 1)}
	if err := tracker.Track(&s.Conn, s, &hooks); err != nil {
		log.Fatal(err)
	}
	keepalive := 50 * time.Millisecond // as the client has asked for
	serving, err := tracker.Phase(idle.Policy{
		Name:      "serving",
		Heartbeat: idle.Heartbeat{Interval: keepalive, Timeout: keepalive / 2, Passive: true},
	})
	if err != nil {
		log.Fatal(err)
	}
	s.Enter(serving)
	s.Beat() // and no further one
	timeout := <-s.ended
	fmt.Println(s.name, timeout.Phase, timeout.Setting, timeout.Limit)
	// Output: bob serving Heartbeat 75ms
}

// An event loop has a shard of its own, on which nothing is locked. All calls are made
// on the loop.
func ExampleTracker_NewShard() {
	tracker, err := idle.New(idle.Policy{IdleTimeout: 50 * time.Millisecond}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer tracker.Close()
	loop := make(chan func(), 1) // of which the tracker uses one place at most
	shard, err := tracker.NewShard(func(pass func()) error { loop <- pass; return nil })
	if err != nil {
		log.Fatal(err)
	}
	defer shard.Close()
	s := &session{name: "carol", ended: make(chan *idle.TimeoutError, 1)}
	if err := shard.Track(&s.Conn, s, &hooks); err != nil {
		log.Fatal(err)
	}
	for {
		select {
		case task := <-loop:
			task()
		case timeout := <-s.ended:
			fmt.Println(s.name, timeout.Setting)
			return
		}
	}
	// Output: carol IdleTimeout
}

// A visit shows which connection will end first if nothing moves.
func ExampleTracker_Visit() {
	tracker, err := idle.New(idle.Policy{Name: "login", PhaseTimeout: 50 * time.Second}, &idle.Options{
		Label: func(owner any) string { return owner.(*session).name },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer tracker.Close()
	chat, err := tracker.Phase(idle.Policy{Name: "chat", IdleTimeout: time.Hour})
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"alice", "bob", "carol"} {
		s := &session{name: name}
		if err := tracker.Track(&s.Conn, s, &hooks); err != nil {
			log.Fatal(err)
		}
		if name != "bob" { // who hasn't logged in
			s.Enter(chat)
		}
	}
	var first idle.Info
	err = tracker.Visit(context.Background(), func(info idle.Info) {
		if info.EndsBy != 0 && (first.EndsBy == 0 || info.EndsIn < first.EndsIn) {
			first = info
		}
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(first.Owner.(*session).name, "ends by", first.EndsBy, "in about", first.EndsIn.Round(time.Minute))
	// Output: bob ends by phase in about 1m0s
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

// A number without a unit is nanoseconds, so it's refused. So is what can't be meant.
func ExampleTracker_Drain_refused() {
	t, err := idle.New(idle.Policy{IdleTimeout: time.Minute}, nil)
	if err != nil {
		panic(err)
	}
	defer t.Close()
	for _, d := range []idle.Drain{{Duration: 30}, {Duration: time.Minute, ForceAfter: time.Second}} {
		_, err := t.Drain(d)
		fmt.Println(err)
	}
	// Output:
	// idle: Drain.Duration is 30ns, shorter than 1ms; write it with a unit, like 30*time.Second, or use 0
	// idle: Drain.ForceAfter is 1s, shorter than the Duration of 1m0s, so it would end connections before their turn; use at least the Duration, or 0
}
