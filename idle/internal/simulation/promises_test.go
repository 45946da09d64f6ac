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
	graceTicks  = 5           // "if the tracker finds that it runs ten ticks late, nothing times out for another five"
	keptEnds    = 1024        // Tracker.RecentEnds
	forecastFor = time.Minute // Census.Ending

	minTick, maxTick = time.Millisecond, 10 * time.Second // Options.Tick
	maxTicks         = 1 << 28                            // of a limit; see Policy
	maxMisses        = 100                                // Heartbeat.Misses

	numReasons = idle.ReasonEvict + 1
	numSorts   = idle.MostUnsent + 1
)

// How long may pass until something is done that has no time of its own in the documentation.
const (
	stepsEvery = 10 * time.Millisecond  // an operation goes on
	walksEvery = time.Second            // it looks for connections of loops that were blocked
	spareFor   = time.Second            // one that was in use is not evicted
	leastPause = 100 * time.Millisecond // there may be too many connections again
	atOnce     = 2                      // ticks that an OnTimeout may take to be one that answers at once
)

// isLimit reports whether r is the reason of a limit, not of an operation.
func isLimit(r idle.Reason) bool { return r > 0 && r < idle.ReasonDrain }

// slackOf is by how much timeouts run behind the clock at most.
func slackOf(tick time.Duration) time.Duration { return tick / slackShare }

// isSet reports whether c has anything to say; see Capacity.
func isSet(c *idle.Capacity) bool {
	return c.MaxConns > 0 || countsKeys(c) || c.MinIdle > 0 || len(c.Exempt) > 0 || c.New != idle.Quota{} || c.Handshakes > 0
}

// countsKeys reports whether c limits connections by key.
func countsKeys(c *idle.Capacity) bool {
	return c.PerKey > 0 || c.NewPerKey != idle.Quota{} || c.HandshakesPerKey > 0
}

// countsHandshakes reports whether c limits connections in the handshake.
func countsHandshakes(c *idle.Capacity) bool { return c.Handshakes > 0 || c.HandshakesPerKey > 0 }

// burstOf is how many may come at once; see Quota.
func burstOf(q idle.Quota) float64 {
	if q.Burst > 0 {
		return float64(q.Burst)
	}
	return max(1, math.Ceil(q.PerSecond))
}

// durations returns the fields of p that may be longer or shorter without regard to the
// other phases.
func durations(p *idle.Policy) []*time.Duration {
	return []*time.Duration{
		&p.IdleTimeout, &p.ReadTimeout, &p.ReadTotal, &p.WriteTimeout, &p.PhaseTimeout,
		&p.Heartbeat.Interval, &p.Heartbeat.Timeout, &p.MinReadRate.Grace, &p.MinWriteRate.Grace,
	}
}

// isDone reports whether an operation has finished.
func isDone(o *idle.Operation) bool {
	select {
	case <-o.Done():
		return true
	default:
		return false
	}
}
