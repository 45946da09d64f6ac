package idle

import (
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

const (
	burstOfReads = 4096 // what a sleeping clock lets pass
	leastQuiet   = 8    // quiet ticks, until a running clock falls asleep
)

// naps lets the clock sleep as it does by default.
func naps(t *testing.T, test func(*rig, []*peer)) {
	for _, on := range []func(*testing.T, Policy, *Options, func(*rig)){
		onDriver, func(t *testing.T, p Policy, o *Options, test func(*rig)) { inBubble(t, p, o, true, test) },
	} {
		on(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
			r.clock.Tune(clock.DefaultTuning(r.opts.Tick))
			var all []*peer
			for range 2 * burstOfReads {
				all = append(all, r.peer())
			}
			r.wait(time.Second)
			if !r.clock.Sleeping() {
				r.Fatal("awake although silent")
			}
			test(r, all)
		})
	}
}

// TestFewActivitiesDoNotWakeTheClock has as many as a chat server with 3,000 clients, of
// which each says something twice a minute.
func TestFewActivitiesDoNotWakeTheClock(t *testing.T) {
	naps(t, func(r *rig, all []*peer) {
		for i := range 6000 {
			p := all[i%len(all)]
			r.do(func() { p.PauseRead(); p.Touch(); p.AwaitRead() })
			if got, want := p.lastIn.Load(), clock.StampOf(r.clock.Now()); got != want {
				r.Fatalf("stamp %d in tick %d", got, want)
			}
			if !r.clock.Sleeping() {
				r.Fatalf("awake after %d activities", i)
			}
			r.wait(10 * time.Millisecond)
		}
	})
}

// TestManyActivitiesWakeTheClock has more of them than it may sleep through, and then few.
func TestManyActivitiesWakeTheClock(t *testing.T) {
	naps(t, func(r *rig, all []*peer) {
		r.do(func() {
			for _, p := range all {
				p.Touch()
			}
		})
		if r.clock.Sleeping() {
			r.Error("asleep after a burst")
		}
		for range 100 {
			r.do(func() {
				for _, p := range all[:2*clock.FewSlowPaths] {
					p.Touch()
				}
			})
			r.wait(r.opts.Tick)
			if r.clock.Sleeping() {
				r.Fatal("asleep while active")
			}
		}
		for range 3 * leastQuiet {
			r.do(all[0].Touch)
			r.wait(r.opts.Tick)
		}
		if !r.clock.Sleeping() {
			r.Error("awake although there is little activity")
		}
	})
}

// TestClockDoesNotFlap has one connection that is active all the time. While the clock
// runs that is one slow path a tick, and while it sleeps they are many.
func TestClockDoesNotFlap(t *testing.T) {
	naps(t, func(r *rig, all []*peer) {
		slept, sleeping := 0, true
		for range 20 * time.Second / r.opts.Tick {
			r.do(func() {
				for range 2 * burstOfReads {
					all[0].Touch()
				}
			})
			if now := r.clock.Sleeping(); now != sleeping {
				if sleeping = now; sleeping {
					slept++
				}
			}
			r.wait(r.opts.Tick)
		}
		// It sleeps after 8 ticks, or 16, 32, and so on up to 512.
		if slept > 12 {
			r.Errorf("it fell asleep %d times", slept)
		}
	})
}

// BenchmarkTouchAsleep is an activity while the clock sleeps. It has to be compared with
// BenchmarkWakeUp.
func BenchmarkTouchAsleep(b *testing.B) {
	t := newTracker(b, Policy{IdleTimeout: time.Hour}, nil)
	t.clock.Tune(clock.Tuning{Burst: time.Hour})
	p := &peer{}
	check(b, t.Track(&p.Conn, p, hooksOf(p)))
	for b.Loop() {
		p.Touch()
	}
}

// TestGraceAfterAStall has the whole process stand still, while the limit of a
// connection passes. Its input is read as soon as there is a chance to, which
// takes a few ticks.
func TestGraceAfterAStall(t *testing.T) {
	if raceEnabled {
		t.Skip("it sets the clock forward")
	}
	onDriver(t, Policy{IdleTimeout: 300 * time.Millisecond}, &Options{Shards: 1}, func(r *rig) {
		p := r.peer()
		r.lives(p, 200*time.Millisecond)
		ageClock(r.Tracker, 30) // as if it had been standing still since, with all its timers
		r.lives(p, (graceTicks-1)*r.opts.Tick)
		p.Touch()
		since := time.Now()
		r.lives(p, 200*time.Millisecond)
		r.dies(p, since, 300*time.Millisecond, ReasonIdle)
	})
}

// TestGraceIsNotRenewed has stalls follow each other so closely that each comes within the
// grace after the one before, as in a container that is throttled. The limit must
// take effect all the same.
func TestGraceIsNotRenewed(t *testing.T) {
	if raceEnabled {
		t.Skip("it sets the clock forward")
	}
	for _, stall := range []int64{stallTicks, 12, 30, 100} {
		for between := time.Duration(1); between <= 6; between++ {
			onDriver(t, Policy{IdleTimeout: 300 * time.Millisecond}, &Options{Shards: 1}, func(r *rig) {
				r.clock.Tune(clock.Tuning{Each: never / 2, Need: quietTicks, Most: quietTicks}) // never sleeps: no tick has fewer than 0 slow paths
				p := r.peer()
				for n := range 1000 {
					if len(p.expired) > 0 {
						if elapsed, most := p.expired[0].Elapsed, 300*time.Millisecond+time.Duration(3*stall+20)*r.opts.Tick; elapsed > most {
							t.Errorf("stalls of %d ticks with %d between: ended after %v", stall, between, elapsed)
						}
						return
					}
					if n > 0 {
						ageClock(r.Tracker, stall)
					}
					r.wait(between * r.opts.Tick)
				}
				t.Errorf("stalls of %d ticks with %d between: not ended after %v", stall, between, r.clock.Elapsed())
			})
		}
	}
}
