package idle

import (
	"fmt"
	"testing"
	"time"
)

// TestCloseEndsWalks closes the tracker during a walk, while another one waits.
func TestCloseEndsWalks(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Minute}, nil, func(r *rig) {
		r.peers(20)
		first, second := r.goSlowly(), r.goSlowly()
		r.wait(3 * r.opts.Tick)
		if _, err := r.Tracker.Close(); err != nil || first.visited() == 0 {
			r.Fatalf("after %d visits: %v", first.visited(), err)
		}
		if third := r.goWalking(0); !first.ended() || !second.ended() || !third.ended() {
			r.Error("a walk of a closed tracker goes on")
		}
		r.wait(time.Second)
		if second.visited() > 0 || first.visited() > 10 {
			r.Errorf("visited after Close: %d and %d", first.visited(), second.visited())
		}
	})
}

// TestRetireEndsWalks has the last connection end during a walk.
func TestRetireEndsWalks(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Minute}, nil, func(r *rig) {
		all := r.peers(10)
		w := r.goSlowly()
		r.Tracker.CloseWhenEmpty()
		r.wait(2 * r.opts.Tick)
		r.do(func() {
			for _, p := range all {
				p.Stop()
			}
		})
		r.wait(r.opts.Tick)
		if !w.ended() || w.visited() == len(all) {
			r.Errorf("the walk has ended: %v, after %d visits", w.ended(), w.visited())
		}
	})
}

// TestShardClosedDuringWalks closes a loop's shard, which is the last that a walk is not
// through with, while another walk waits.
func TestShardClosedDuringWalks(t *testing.T) {
	for _, left := range []int{1, 3} { // of those on the loop
		inBubble(t, Policy{IdleTimeout: time.Minute}, nil, true, func(r *rig) {
			r.peers(8)
			driven := &peer{}
			if err := r.Tracker.Track(&driven.Conn, driven, hooksOf(driven)); err != nil {
				r.Fatal(err)
			}
			walks := []*walkLog{r.goSlowly(), r.goSlowly(), r.goSlowly()}
			for walks[0].visited() < 9-left {
				r.wait(r.opts.Tick / 2)
			}
			r.closeShard()
			r.finishes(walks[2], 3)
			for i, w := range walks[1:] {
				if w.times(driven) != 1 || w.visited() != 1 {
					r.Errorf("walk %d: %d visits", i+1, w.visited())
				}
			}
		})
	}
}

// TestNewShardDuringWalk has a loop come whose connections are visited by a walk that begins
// after that.
func TestNewShardDuringWalk(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Minute}, nil, func(r *rig) {
		all := r.peers(10)
		first, second := r.goSlowly(), r.goSlowly()
		r.wait(2 * r.opts.Tick)
		r.loop = newLoop()
		var err error
		if r.shard, err = r.NewShard(func(pass func()) error { r.loop.post(pass); return nil }); err != nil {
			r.Fatal(err)
		}
		late := r.peer()
		third := r.goSlowly()
		r.finishes(third, 3*len(all)+3)
		r.visitsOnce(first, all)
		r.visitsOnce(second, all)
		r.visitsOnce(third, append(all, late))
	})
}

// TestWalkLetsTheClockSleep walks while nothing is active.
func TestWalkLetsTheClockSleep(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Minute}, nil, func(r *rig) {
		all := r.peers(10)
		r.wait(2 * time.Second)
		if !r.clock.Sleeping() {
			r.Fatal("the clock is awake")
		}
		w := r.goSlowly()
		r.finishes(w, len(all))
		r.visitsOnce(w, all)
		if !r.clock.Sleeping() {
			r.Error("the walk has woken the clock")
		}
	})
}

// TestWalkOfLoopThatRefuses has a loop refuse its passes for a while.
func TestWalkOfLoopThatRefuses(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Minute}, nil, func(r *rig) {
		r.loop = newLoop()
		refuses := true
		var err error
		r.shard, err = r.NewShard(func(pass func()) error {
			if refuses {
				return fmt.Errorf("refused")
			}
			r.loop.post(pass)
			return nil
		})
		if err != nil {
			r.Fatal(err)
		}
		all := r.peers(3)
		w := r.goSlowly()
		r.wait(time.Second)
		if w.visited() > 0 || w.ended() {
			r.Fatal("visited without a pass")
		}
		refuses = false
		r.finishes(w, len(all))
		r.visitsOnce(w, all)
	})
}

// TestAbandonAfterClose gives up a walk that was under way when its shard was closed.
func TestAbandonAfterClose(t *testing.T) {
	var q walkQueue
	w := &walk{done: make(chan struct{})}
	w.shards.Store(1)
	q.add(w)
	q.get()
	q.close()
	<-w.done
	q.drop(w.done)
	if q.finish() || q.some.Load() {
		t.Error("a closed queue has walks")
	}
}
