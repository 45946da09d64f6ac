package simulation

import (
	"math"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// never is an instant that doesn't come.
const never time.Duration = math.MaxInt64

// What the documentation of package idle promises, in numbers.
const (
	slackShare  = 8 // "at most 1⅛ ticks later"
	stallTicks  = 10
	graceTicks  = 5    // "if the tracker finds that it runs ten ticks late, nothing times out for another five"
	unreadTicks = 5    // "PhaseTimeout, MinReadRate and a passive Heartbeat it puts off by five ticks"
	keptEnds    = 1024 // Tracker.RecentEnds

	measuredAfter = 8 // "once an eighth of Grace is used up"

	minTick, maxTick = time.Millisecond, 10 * time.Second // Options.Tick
	maxTicks         = 1 << 28                            // of a limit; see Policy
	maxMisses        = 100                                // Heartbeat.Misses

	numReasons = idle.ReasonEvict + 1
)

// atOnce is how many ticks an OnTimeout may take to be one that answers at once.
const atOnce = 2

// isLimit reports whether r is the reason of a limit, not of what else ends a connection.
func isLimit(r idle.Reason) bool { return r > 0 && r < idle.ReasonDrain }

// slackOf is by how much timeouts run behind the clock at most.
func slackOf(tick time.Duration) time.Duration { return tick / slackShare }

// durations returns the fields of p that may be longer or shorter without regard to the
// other phases.
func durations(p *idle.Policy) []*time.Duration {
	return []*time.Duration{
		&p.IdleTimeout, &p.ReadTimeout, &p.WriteTimeout, &p.PhaseTimeout,
		&p.Heartbeat.Interval, &p.Heartbeat.Timeout, &p.MinReadRate.Grace, &p.MinWriteRate.Grace,
	}
}
