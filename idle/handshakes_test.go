package idle

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestHandshakes: no more connections than Handshakes are in phases of a handshake, whatever
// else there is room for. A place is free when one of them enters another phase, or ends.
func TestHandshakes(t *testing.T) {
	greeting := Policy{Name: "greeting", PhaseTimeout: 10 * time.Second, Handshake: true}
	onBoth(t, greeting, nil, func(r *rig) {
		open := r.phaseOf(Policy{Name: "open", IdleTimeout: time.Hour})
		login := r.phaseOf(Policy{Name: "login", PhaseTimeout: 20 * time.Second, Handshake: true})
		early := r.peer() // before there is a limit: doesn't count
		r.mustHold(Capacity{Handshakes: 3})
		var all []*peer
		for range 3 {
			all = append(all, r.peer())
		}
		refused := uint64(0)
		full := func() {
			r.Helper()
			err := r.tryTrack(new(Conn), &peer{})
			if !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "in the handshake") {
				r.Errorf("one more: %v", err)
			}
			refused++
		}
		full()
		r.do(func() { all[0].Enter(login); early.Enter(open) })
		full() // a login is a handshake too
		r.do(func() { all[0].Enter(open) })
		r.peer()
		full()
		r.do(func() { all[0].Enter(login) }) // that of another user: it doesn't count again
		full()
		moved := &peer{} // from another tracker, where it has shaken hands
		if err := r.Adopt(&moved.Conn, moved, hooksOf(moved)); err != nil {
			r.Fatal(err)
		}
		moved.Stop()
		full()
		r.do(func() { all[0].Enter(open); all[0].Stop(); all[1].Stop() })
		r.peer()
		full()
		r.do(all[2].Established)
		r.do(all[2].Established)
		last := r.peer()
		full()
		r.wait(9 * time.Second)
		r.do(func() { last.Enter(login) })
		r.wait(2 * time.Second) // the others have timed out
		if st := r.Stats(); st.RefusedHandshake != refused || st.Refused != refused || st.Live != 2 {
			r.Errorf("%+v; want %d refused", st, refused)
		}
		r.peer()
		r.peer()
		full()
		r.wait(time.Minute)
		if n := r.room.handshakes.Load(); n != 0 {
			r.Errorf("%d in the handshake when all have left it", n)
		}
	})
}

// TestHandshakesBesideOtherLimits: who is refused for another reason takes no place.
func TestHandshakesBesideOtherLimits(t *testing.T) {
	onBoth(t, Policy{PhaseTimeout: time.Hour, Handshake: true}, nil, func(r *rig) {
		r.mustHold(Capacity{Handshakes: 5, PerKey: 2, MaxConns: 3, MinIdle: time.Minute, Key: func(owner any) string { return string(rune(owner.(*guest).n)) }})
		track := func(key rune) error { g := &guest{n: int(key)}; return r.tryTrack(&g.conn, g) }
		for i, key := range []rune("aaabca") {
			if err, want := track(key), i < 2 || i == 3; (err == nil) != want {
				r.Errorf("number %d: %v", i, err)
			}
		}
		if st := r.Stats(); st.Refused != 3 || st.RefusedKey != 2 || st.RefusedHandshake != 0 {
			r.Errorf("%+v", st)
		}
		if n := r.room.handshakes.Load(); n != 3 {
			r.Errorf("%d in the handshake, want 3", n)
		}
		r.Tracker.Close()
		if n := r.room.handshakes.Load(); n != 0 && r.shard == nil {
			r.Errorf("%d in the handshake after Close", n)
		}
	})
}

// TestHandshakesRefused names what would make the limit count nothing.
func TestHandshakesRefused(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		for want, c := range map[string]Capacity{
			"Capacity.Handshakes is -1; use 0":                                      {Handshakes: -1},
			"Capacity.Handshakes is 5, but the policy with which connections begin": {Handshakes: 5},

			"Capacity.HandshakesPerKey is -1; use 0":                                      {HandshakesPerKey: -1},
			"Capacity.HandshakesPerKey is 5, but the policy with which connections begin": {HandshakesPerKey: 5},
		} {
			if err := r.SetCapacity(c); err == nil || !strings.Contains(err.Error(), want) {
				r.Errorf("%+v: %v", c, err)
			}
		}
		greeting := Policy{PhaseTimeout: time.Second, Handshake: true}
		if err := r.SetPolicy(greeting); err != nil {
			r.Fatal(err)
		}
		r.mustHold(Capacity{Handshakes: 5})
		if err := r.SetPolicy(Policy{IdleTimeout: time.Hour}); err == nil || !strings.Contains(err.Error(), "Capacity.Handshakes is 5") || r.Policy() != greeting {
			r.Errorf("SetPolicy: %v", err)
		}
	})
}

// TestHandshakesPerKey: one address has no more connections in the handshake than HandshakesPerKey,
// and others have as many.
func TestHandshakesPerKey(t *testing.T) {
	greeting := Policy{Name: "greeting", PhaseTimeout: 10 * time.Second, Handshake: true}
	onBoth(t, greeting, nil, func(r *rig) {
		open := r.phaseOf(Policy{Name: "open", IdleTimeout: time.Hour})
		refused := uint64(0)
		comes := func(from string) *caller {
			r.Helper()
			c := &caller{from: from}
			r.track(&c.conn, c)
			return c
		}
		full := func(from string) {
			r.Helper()
			c := &caller{from: from}
			err := r.tryTrack(&c.conn, c)
			if !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "2 connections of "+strings.TrimSuffix(from, ":1")+": too many connections in the handshake") {
				r.Errorf("one more: %v", err)
			}
			refused++
		}
		const one, other = "192.0.2.1:1", "192.0.2.2:1"
		comes(one) // before there is a limit: doesn't count
		limits := Capacity{HandshakesPerKey: 2}
		r.mustHold(limits)
		first, second := comes(one), comes(one)
		full(one)
		comes(other)
		r.mustHold(limits) // what is counted stays counted
		full(one)
		r.do(func() { first.conn.Enter(open) })
		third := comes(one)
		full(one)
		r.do(func() { first.conn.Enter(open) }) // it doesn't count twice
		full(one)
		r.do(func() { first.conn.Stop() }) // which has left the handshake already
		full(one)
		r.do(func() { second.conn.Stop() })
		comes(one)
		full(one)
		third.conn.End("test")
		r.wait(time.Second)
		comes(one)
		full(one)

		// Keys that are made anew count those that are in the handshake.
		limits.Key = func(owner any) string { return strings.TrimSuffix(owner.(*caller).from, ":1") }
		r.mustHold(limits)
		full(one)
		r.wait(time.Second)
		full(one)

		r.wait(11 * time.Second) // all others have timed out
		comes(one)
		comes(one)
		full(one)
		if st := r.Stats(); st.RefusedHandshake != refused || st.Refused != refused || st.Live != 2 {
			r.Errorf("%+v; want %d refused", st, refused)
		}
		keys := r.keys.Load()
		r.wait(time.Minute)
		if len(keys.count) > 0 {
			r.Errorf("left: %v", keys.count)
		}
	})
}

// TestHandshakesOfALateKey: a connection counts by its key from when that is known, if it is in
// the handshake then.
func TestHandshakesOfALateKey(t *testing.T) {
	onBoth(t, Policy{PhaseTimeout: time.Hour, Handshake: true}, nil, func(r *rig) {
		open := r.phaseOf(Policy{Name: "open", IdleTimeout: time.Hour})
		r.mustHold(Capacity{HandshakesPerKey: 1, Key: func(owner any) string { return owner.(*caller).from }})
		var all [3]caller
		for i := range all {
			r.track(&all[i].conn, &all[i])
		}
		r.do(func() { all[0].conn.Enter(open) })
		for i := range all {
			all[i].from = "same"
			all[i].conn.Rekey()
		}
		r.wait(time.Second)
		if !all[0].conn.Live() || !all[1].conn.Live() || all[2].conn.Live() {
			t.Error("not the third was ended")
		}
		if st := r.Stats(); st.Evicted != 1 {
			t.Errorf("%+v", st)
		}
		r.do(func() { all[1].conn.Enter(open) })
		late := caller{from: "same"}
		r.track(&late.conn, &late)
	})
}

// TestHandshakeEndsWithItsPolicy replaces the policy of a phase by one that is no handshake.
// Connections in that phase don't count any more.
func TestHandshakeEndsWithItsPolicy(t *testing.T) {
	greeting := Policy{PhaseTimeout: time.Hour, Handshake: true}
	onBoth(t, greeting, nil, func(r *rig) {
		login := r.phaseOf(greeting)
		r.mustHold(Capacity{Handshakes: 2, HandshakesPerKey: 2, Key: func(any) string { return "same" }})
		stays, goesOn := r.peer(), r.peer()
		r.do(func() { goesOn.Enter(login) })
		if err := login.SetPolicy(Policy{PhaseTimeout: time.Hour}); err != nil {
			r.Fatal(err)
		}
		r.wait(time.Second)
		r.peer()
		if err := r.tryTrack(new(Conn), &peer{}); !errors.Is(err, ErrFull) {
			r.Errorf("a third one in the handshake: %v", err)
		}
		r.do(func() { goesOn.Stop(); stays.Stop() })
		r.peer()
	})
}

// TestHandshakeEndsBesideTrack replaces the policy by one without a handshake while Track runs.
// The connection isn't counted as one in the handshake later.
func TestHandshakeEndsBesideTrack(t *testing.T) {
	greeting := Policy{PhaseTimeout: time.Hour, Handshake: true}
	onDriver(t, greeting, nil, func(r *rig) {
		asked := false
		r.mustHold(Capacity{Handshakes: 1, PerKey: 10, Key: func(any) string {
			if !asked {
				asked = true
				r.mustHold(Capacity{})
				if err := r.SetPolicy(Policy{PhaseTimeout: time.Hour}); err != nil {
					r.Error(err)
				}
				r.wait(time.Second) // the walk has visited all connections
			}
			return "key"
		}})
		r.peer()
		r.wait(time.Second)
		if err := r.SetPolicy(greeting); err != nil {
			r.Fatal(err)
		}
		r.mustHold(Capacity{Handshakes: 1})
		if err := r.tryTrack(&Conn{}, &peer{}); err != nil {
			r.Errorf("the first one in the handshake: %v", err)
		}
	})
}
