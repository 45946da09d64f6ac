package idle

import (
	"context"
	"sync"
	"testing"
	"time"
)

// onStuck runs a test on a tracker with a loop that never runs what it is given, and on whose
// shard there is a connection.
func onStuck(t *testing.T, p Policy, test func(*rig)) {
	onDriver(t, p, nil, func(r *rig) {
		stuck, err := r.NewShard(func(func()) error { return nil })
		if err != nil {
			r.Fatal(err)
		}
		p := &peer{}
		if err := stuck.Track(&p.Conn, p, hooksOf(p)); err != nil {
			r.Fatal(err)
		}
		test(r)
		if _, err := stuck.Close(); err != nil {
			r.Error(err)
		}
	})
}

// TestDrainBesideStuckLoop drains. What is on the shard of a blocked loop cannot end, but
// all others do, at the rate that was asked for.
func TestDrainBesideStuckLoop(t *testing.T) {
	for name, d := range map[string]Drain{"stop": {ForceAfter: time.Minute}, "over": {Duration: 10 * time.Minute}, "at once": {}} {
		t.Run(name, func(t *testing.T) {
			onStuck(t, Policy{IdleTimeout: 24 * time.Hour}, func(r *rig) {
				all := r.peers(100)
				o, err := r.Drain(d)
				if err != nil {
					r.Fatal(err)
				}
				r.wait(d.Duration/2 + 2*time.Second)
				ended := 0
				for _, p := range all {
					ended += len(p.expired)
				}
				if d.Duration > 0 && (ended < 45 || ended > 55) || d.Duration == 0 && ended < 100 {
					r.Errorf("%d have ended at half time", ended)
				}
				r.wait(30 * time.Minute)
				for i, p := range all {
					if len(p.expired) != 1 || p.expired[0].Reason != ReasonDrain {
						r.Fatalf("%d of 100 on a healthy shard has not ended: %v", i, p.expired)
					}
				}
				if p := o.Progress(); p.Ended != 100 || p.Finished {
					r.Errorf("%+v", p)
				}
				o.Cancel()
			})
		})
	}
}

// TestShedShareBesideStuckLoop sheds a share. It is one of those that can be found.
func TestShedShareBesideStuckLoop(t *testing.T) {
	onStuck(t, Policy{IdleTimeout: 24 * time.Hour}, func(r *rig) {
		r.peers(100)
		o, err := r.Shed(Shed{Fraction: 0.25})
		if err != nil {
			r.Fatal(err)
		}
		r.wait(time.Minute)
		if p := o.Progress(); p.Ended != 25 || p.Left != 0 {
			r.Errorf("%+v", p)
		}
		o.Cancel()
	})
}

// TestReplaceBesideStuckLoop replaces a policy again and again. The healthy shards follow
// each time, and the walks of the other one do not pile up.
func TestReplaceBesideStuckLoop(t *testing.T) {
	onStuck(t, Policy{IdleTimeout: 24 * time.Hour}, func(r *rig) {
		all := r.peers(10)
		for n := range 20 {
			if err := r.SetPolicy(Policy{IdleTimeout: time.Duration(40-n) * time.Hour}); err != nil {
				r.Fatal(err)
			}
			r.wait(time.Second)
		}
		if err := r.SetPolicy(Policy{IdleTimeout: time.Minute}); err != nil {
			r.Fatal(err)
		}
		begun := time.Now()
		for _, p := range all {
			r.dies(p, begun.Add(-20*time.Second), time.Minute, ReasonIdle)
		}
		if n := len(r.loops[0].walks.waiting); n != 1 {
			r.Errorf("%d walks wait for the blocked loop, want 1", n)
		}
	})
}

// TestCensusBesideStuckLoop takes censuses, which cannot finish. They hold up neither each
// other nor what else walks.
func TestCensusBesideStuckLoop(t *testing.T) {
	onStuck(t, Policy{IdleTimeout: 24 * time.Hour}, func(r *rig) {
		all := r.peers(10)
		for range 3 {
			ctx, cancel := context.WithTimeout(r.Context(), time.Second)
			defer cancel()
			if _, err := r.Census(ctx, Query{}); err == nil {
				r.Error("a census of a blocked loop has finished")
			}
		}
		w := r.goWalking(0)
		r.wait(time.Second)
		for i, p := range all {
			if w.times(p) != 1 {
				r.Errorf("%d was visited %d times", i, w.times(p))
			}
		}
	})
}

// TestCancelBesideStuckLoop cancels a drain that has given orders to a blocked loop. It is over
// at once, so that there can be another one, and nobody is ended when the loop goes on.
func TestCancelBesideStuckLoop(t *testing.T) {
	for _, paused := range []bool{false, true} {
		onDriver(t, Policy{IdleTimeout: 24 * time.Hour}, nil, func(r *rig) {
			var passes []func()
			stuck, err := r.NewShard(func(pass func()) error { passes = append(passes, pass); return nil })
			if err != nil {
				r.Fatal(err)
			}
			resume := func() {
				for len(passes) > 0 {
					pass := passes[0]
					passes = passes[1:]
					pass()
					r.wait(time.Second)
				}
			}
			p := &peer{}
			if err := stuck.Track(&p.Conn, p, hooksOf(p)); err != nil {
				r.Fatal(err)
			}
			o, err := r.Drain(Drain{CloseDelay: time.Minute})
			if err != nil {
				r.Fatal(err)
			}
			r.wait(time.Second)
			resume() // it is met, and told
			r.wait(time.Hour)
			if paused {
				o.Pause()
				resume()
				r.lives(p, time.Second)
				o.Resume()
				r.wait(time.Minute)
				resume()
				if len(p.expired) != 1 {
					r.Error("not ended after Resume")
				}
			} else {
				o.Cancel()
				r.wait(time.Second)
				select {
				case <-o.Done():
				default:
					r.Error("the drain is not over a second after Cancel")
				}
				again, err := r.Drain(Drain{})
				if err != nil {
					r.Fatal(err)
				}
				again.Pause()
				resume()
				r.lives(p, time.Second)
				again.Resume()
				for range 3 {
					r.wait(2 * time.Second)
					resume()
				}
				if len(p.expired) != 1 || again.Progress().Met != 1 {
					r.Errorf("the second drain: %+v", again.Progress())
				}
			}
			if _, err := stuck.Close(); err != nil {
				r.Error(err)
			}
		})
	}
}

// TestDrainBesideLoopThatBlocksLater drains while a loop blocks whose connections have been met,
// and are the most idle ones. What is not done there leaves room for the others.
func TestDrainBesideLoopThatBlocksLater(t *testing.T) {
	if raceEnabled && testing.Short() {
		t.Skip("so many connections take half a minute; TestDrainBesideStuckLoop drains beside a blocked loop with few")
	}
	const many, few, over = mostGiven + 1000, 100, time.Minute
	inBubble(t, Policy{IdleTimeout: 24 * time.Hour}, nil, true, func(r *rig) {
		for range many {
			r.peer()
		}
		r.wait(time.Second)
		others := make([]peer, few)
		for i := range others {
			if err := r.Tracker.Track(&others[i].Conn, &others[i], hooksOf(&others[i])); err != nil {
				r.Fatal(err)
			}
		}
		o := r.mustDrain(Drain{Duration: over})
		r.wait(time.Second)
		release := make(chan struct{})
		r.loop.post(func() { <-release })
		r.wait(over)
		for i := range others {
			if len(others[i].expired) != 1 {
				r.Fatalf("%d of %d beside a blocked loop has not ended: %+v", i, few, o.Progress())
			}
		}
		if p := o.Progress(); p.Ended < few || p.Ended > 1000 || p.Left != many+few-p.Ended || p.InUse < p.Left-mostGiven {
			r.Errorf("%+v", p)
		}
		close(release)
		r.finishesIn(o, time.Minute)
	})
}

// TestLowerCapacityBesideStuckLoop lowers a capacity when nobody may be evicted yet. What walks for
// that again and again does not pile up on the blocked loop.
func TestLowerCapacityBesideStuckLoop(t *testing.T) {
	onStuck(t, Policy{IdleTimeout: 24 * time.Hour}, func(r *rig) {
		r.peers(10)
		r.mustHold(Capacity{MaxConns: 5, MinIdle: 10 * time.Minute})
		r.wait(time.Minute)
		if n := len(r.loops[0].walks.waiting); n > 1 {
			r.Errorf("%d walks wait for the blocked loop", n)
		}
		r.wait(10 * time.Minute)
		if st := r.Stats(); st.Live != 5 || st.Evicted != 6 {
			r.Errorf("%+v", st)
		}
	})
}

// TestLowerCapacityBesideLoopThatBlocksLater lowers a capacity. The loop whose connections are the
// most idle ones blocks when the first of them is evicted, so others make room in their place, also
// when the capacity is lowered again.
// When the loop goes on, no more are evicted than had to be.
func TestLowerCapacityBesideLoopThatBlocksLater(t *testing.T) {
	inBubble(t, Policy{IdleTimeout: 24 * time.Hour}, nil, true, func(r *rig) {
		release := make(chan struct{})
		once := sync.Once{}
		blocks := &Hooks{Expire: func(any, *TimeoutError) { once.Do(func() { <-release }) }}
		onLoop := make([]Conn, 100)
		r.loop.do(func() {
			for i := range onLoop {
				if err := r.shard.Track(&onLoop[i], i, blocks); err != nil {
					r.Fatal(err)
				}
			}
		})
		r.wait(time.Second)
		others := make([]peer, 200)
		for i := range others {
			if err := r.Tracker.Track(&others[i].Conn, &others[i], hooksOf(&others[i])); err != nil {
				r.Fatal(err)
			}
		}
		r.wait(time.Second)
		for _, most := range []int{200, 150} {
			r.mustHold(Capacity{MaxConns: most})
			r.wait(5 * time.Second)
			if st := r.Stats(); st.Live != uint64(most) {
				r.Errorf("beside a blocked loop %d of at most %d are live", st.Live, most)
			}
		}
		close(release)
		r.wait(5 * time.Second)
		if st := r.Stats(); st.Live != 150 || st.Evicted != 150 {
			r.Errorf("when the loop has gone on, %d are live, %d evicted", st.Live, st.Evicted)
		}
	})
}
