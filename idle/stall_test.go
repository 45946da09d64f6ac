package idle

import (
	"testing"
	"time"
)

// TestMercyAfterAStall has the whole process stand still, while the limit of a
// connection passes. Its input is read as soon as there is a chance to, which
// takes a few ticks.
func TestMercyAfterAStall(t *testing.T) {
	if raceEnabled {
		t.Skip("it sets the clock forward")
	}
	onDriver(t, Policy{IdleTimeout: 300 * time.Millisecond}, &Options{Shards: 1}, func(r *rig) {
		p := r.peer()
		r.lives(p, 200*time.Millisecond)
		ageClock(r.Tracker, 30) // as if it had been standing still since, with all its timers
		r.lives(p, (mercyTicks-1)*r.opts.Tick)
		p.Touch()
		since := time.Now()
		r.lives(p, 200*time.Millisecond)
		r.dies(p, since, 300*time.Millisecond, ReasonIdle)
	})
}
