package idle_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// A thousand clients come back at the same moment, such as after a failure of the network. Without
// Jitter they'd all be pinged at the same moment, again and again.
func ExampleHeartbeat_jitter() {
	for pingsSpread() < 100*time.Millisecond { // when the process stood still, they all come late
	}
	fmt.Println("the pings are spread out")
	// Output: the pings are spread out
}

// pingsSpread returns the time in which most of a thousand clients are pinged first.
func pingsSpread() time.Duration {
	t, err := idle.New(idle.Policy{Heartbeat: idle.Heartbeat{
		Interval: time.Second, // a minute in earnest
		Jitter:   800 * time.Millisecond,
		Timeout:  10 * time.Second,
	}}, nil)
	if err != nil {
		panic(err)
	}
	defer t.Close()
	const clients = 1000
	pings := make(chan time.Time, clients)
	hooks := &idle.Hooks{
		Ping:   func(any) error { pings <- time.Now(); return nil },
		Expire: func(any, *idle.TimeoutError) {},
	}
	conns := make([]idle.Conn, clients)
	for i := range conns {
		if err := t.Track(&conns[i], i, hooks); err != nil {
			panic(err)
		}
	}
	var at []time.Time
	for range clients {
		at = append(at, <-pings)
	}
	slices.SortFunc(at, time.Time.Compare)
	return at[clients*9/10].Sub(at[clients/10])
}
