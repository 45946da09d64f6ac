package idle

import (
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

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
