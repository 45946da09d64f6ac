package idle

import (
	"testing"
	"time"
)

// TestDrainBesideABlockedLoop drains. What is on the shard of a blocked loop can't end, but
// all others do, at the rate that was asked for.
func TestDrainBesideABlockedLoop(t *testing.T) {
	for name, d := range map[string]Drain{"stop": {ForceAfter: time.Minute}, "over": {Duration: 10 * time.Minute}, "at once": {}} {
		t.Run(name, func(t *testing.T) {
			onStuck(t, Policy{IdleTimeout: 24 * time.Hour}, func(r *rig) {
				all := r.peers(100)
				o := r.mustDrain(d)
				r.wait(d.Duration/2 + 2*time.Second)
				if ended := 101 - o.Left(); d.Duration > 0 && (ended < 48 || ended > 52) || d.Duration == 0 && ended < 100 {
					r.Errorf("%d have ended at half time", ended)
				}
				r.wait(30 * time.Minute)
				for i, p := range all {
					if len(p.expired) != 1 || p.expired[0].Reason != ReasonDrain {
						r.Fatalf("%d of 100 on a healthy shard has not ended: %v", i, p.expired)
					}
				}
				if o.Left() != 1 || isClosed(o.done) {
					r.Errorf("%d are left", o.Left())
				}
				o.Cancel()
			})
		})
	}
}

// TestDrainCancelledBesideABlockedLoop cancels a drain that has told a connection of a loop that is then
// blocked. It's over at once, and nobody is ended when the loop goes on.
func TestDrainCancelledBesideABlockedLoop(t *testing.T) {
	inBubble(t, Policy{IdleTimeout: 24 * time.Hour}, nil, true, func(r *rig) {
		g := r.guests(1)[0]
		o := r.mustDrain(Drain{CloseDelay: time.Minute, ForceAfter: 2 * time.Minute})
		r.wait(time.Second)
		resume := r.block()
		r.wait(time.Hour)
		o.Cancel()
		resume()
		r.wait(time.Hour)
		if g.told != 1 || g.err != nil || !isClosed(o.done) {
			r.Errorf("told %d times, ended by %v", g.told, g.err)
		}
		r.finishesIn(r.mustDrain(Drain{}), r.late())
	})
}

// TestDrainBesideLoopThatBlocksLater has a loop that blocks during a drain. Its connections are the most idle
// ones, and have their turns when the loop goes on. The other connections have theirs in time.
func TestDrainBesideLoopThatBlocksLater(t *testing.T) {
	inBubble(t, Policy{IdleTimeout: 24 * time.Hour}, nil, true, func(r *rig) {
		r.peers(1000)
		r.wait(time.Second)
		others := make([]peer, 100)
		for i := range others {
			if err := r.Tracker.Track(&others[i].Conn, &others[i], hooksOf(&others[i])); err != nil {
				r.Fatal(err)
			}
		}
		o := r.mustDrain(Drain{Duration: time.Minute})
		r.wait(time.Second)
		resume := r.block()
		r.wait(time.Minute)
		for i := range others {
			if len(others[i].expired) != 1 {
				r.Fatalf("%d of %d beside a blocked loop has not ended; %d are left", i, len(others), o.Left())
			}
		}
		if n := o.Left(); n < 950 {
			r.Errorf("%d are left of 1000 on a blocked loop", n)
		}
		resume()
		r.finishesIn(o, 5*time.Second)
	})
}

// TestForceAfterBesideABlockedLoop has a handler block one of two loops while ForceAfter passes. All
// busy connections of both are ended when it goes on.
func TestForceAfterBesideABlockedLoop(t *testing.T) {
	inBubble(t, Policy{NoInterrupt: true, IdleTimeout: time.Hour}, nil, true, func(r *rig) {
		const each = 20_000
		hooks := &Hooks{Expire: func(any, *TimeoutError) { time.Sleep(50 * time.Microsecond) }} // it closes a socket
		blocked := newLoop()
		defer blocked.stop()
		other, err := r.NewShard(func(pass func()) error { blocked.post(pass); return nil })
		if err != nil {
			r.Fatal(err)
		}
		for s, l := range map[*Shard]*loop{r.shard: r.loop, other: blocked} {
			l.do(func() {
				for range each {
					if err := s.Track(new(Conn), "owner", hooks); err != nil {
						r.Fatal(err)
					}
				}
			})
		}
		o := r.mustDrain(Drain{ForceAfter: 2 * time.Second})
		r.wait(1900 * time.Millisecond)
		blocked.post(func() { time.Sleep(1300 * time.Millisecond) })
		r.await(o)
		if st := r.Stats(); st.Drained != 2*each || o.Left() > 0 {
			r.Errorf("%d are left, %+v", o.Left(), st)
		}
		blocked.do(func() { other.Close() })
	})
}
