package idle_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// A client may open two connections at once, and another one every ten seconds. So a loop that
// reconnects at once is refused, and nobody else notices.
func ExampleCapacity_newPerKey() {
	t, err := idle.New(idle.Policy{IdleTimeout: time.Minute}, nil)
	if err != nil {
		panic(err)
	}
	defer t.Close()
	err = t.SetCapacity(idle.Capacity{
		New:       idle.Quota{PerSecond: 1000},
		NewPerKey: idle.Quota{PerSecond: 0.1, Burst: 2},
		Key:       func(owner any) string { return owner.(string) },
	})
	if err != nil {
		panic(err)
	}
	hooks := &idle.Hooks{Expire: func(any, *idle.TimeoutError) {}}
	for _, client := range []string{"alice", "bob", "bob", "bob", "alice"} {
		if err := t.Track(new(idle.Conn), client, hooks); errors.Is(err, idle.ErrFull) {
			fmt.Println(err)
		}
	}
	fmt.Println(t.Stats().RefusedRate, "refused")
	// Output:
	// connections of bob: too many connections in so short a time: idle: no room for another connection
	// 1 refused
}

// A hundred clients that connect and say nothing don't keep those out who have logged in. More
// of them are refused until one has logged in, or its PhaseTimeout has passed.
func ExampleCapacity_handshakes() {
	t, err := idle.New(idle.Policy{Name: "login", PhaseTimeout: 10 * time.Second, Handshake: true}, nil)
	if err != nil {
		panic(err)
	}
	defer t.Close()
	session, err := t.Phase(idle.Policy{Name: "session", IdleTimeout: time.Hour})
	if err != nil {
		panic(err)
	}
	if err := t.SetCapacity(idle.Capacity{Handshakes: 100}); err != nil {
		panic(err)
	}
	hooks := &idle.Hooks{Expire: func(any, *idle.TimeoutError) {}}
	conns := make([]idle.Conn, 102)
	for i := range 101 {
		if err := t.Track(&conns[i], i, hooks); err != nil {
			fmt.Println(err)
		}
	}
	conns[0].Enter(session)
	fmt.Println(t.Track(&conns[101], 101, hooks))
	fmt.Println(t.Stats().RefusedHandshake, "refused")
	// Output:
	// too many connections in the handshake: idle: no room for another connection
	// <nil>
	// 1 refused
}

// A client may have two connections that haven't logged in. One that opens more and says nothing
// doesn't use up the places of others.
func ExampleCapacity_handshakesPerKey() {
	t, err := idle.New(idle.Policy{Name: "login", PhaseTimeout: 10 * time.Second, Handshake: true}, nil)
	if err != nil {
		panic(err)
	}
	defer t.Close()
	session, err := t.Phase(idle.Policy{Name: "session", IdleTimeout: time.Hour})
	if err != nil {
		panic(err)
	}
	err = t.SetCapacity(idle.Capacity{
		HandshakesPerKey: 2,
		Key:              func(owner any) string { return owner.(string) }, // by default the address
	})
	if err != nil {
		panic(err)
	}
	hooks := &idle.Hooks{Expire: func(any, *idle.TimeoutError) {}}
	for _, client := range []string{"alice", "mallory", "mallory", "mallory", "alice", "alice"} {
		conn := new(idle.Conn)
		if err := t.Track(conn, client, hooks); err != nil {
			fmt.Println(err)
		} else if client == "alice" {
			conn.Enter(session) // she has logged in
		}
	}
	// Output:
	// 2 connections of mallory: too many connections in the handshake: idle: no room for another connection
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
