package turns

import (
	"math"
	"time"
)

// A Pace says when the next of many connections is due: at a rate, or evenly so that all are done
// when a time is over. It counts only the time that is passed to it, so an operation that pauses
// doesn't fall behind.
type Pace struct {
	Rate   float64       // connections per second; 0 if Left says when all have to be done
	Left   time.Duration // until then
	even   float64       // the rate by which all are done then, in connections a nanosecond
	credit float64       // a part of a connection
}

// longestStep is the longest time that a step makes up for, so that the rate isn't much higher
// after a stall.
const longestStep = 500 * time.Millisecond

// Step returns how many of the remaining connections are due after another d.
func (p *Pace) Step(d time.Duration, remaining int) int {
	switch counted := min(d, longestStep); {
	case p.Rate > 0:
		p.credit += p.Rate * counted.Seconds()
	case p.Left <= d:
		p.Left = 0
		return remaining
	default:
		// The rate rises if more connections come, or after a stall. It doesn't fall when some
		// leave by themselves; then all are done before the time is over.
		p.even = max(p.even, (float64(remaining)-p.credit)/float64(p.Left))
		p.credit += p.even * float64(counted)
		p.Left -= d
	}
	if p.credit >= float64(remaining) {
		p.credit = 0 // no connection is left, so the fraction needn't be kept
		return remaining
	}
	const rounding = 1e-9
	n := int(p.credit + rounding)
	p.credit -= float64(n)
	return n
}

// Expected returns how long the remaining connections will take.
func (p *Pace) Expected(remaining int) time.Duration {
	switch {
	case remaining == 0:
		return 0
	case p.Rate > 0:
		if ns := float64(remaining) / p.Rate * float64(time.Second); ns < math.MaxInt64 {
			return time.Duration(ns)
		}
		return math.MaxInt64
	}
	if ns := float64(remaining) / p.even; ns < float64(p.Left) { // also if the rate is not known yet
		return time.Duration(ns)
	}
	return p.Left
}
