package idle

import (
	"math"
	"time"
)

// A pace says when the next of many connections is due: at a rate, or evenly so that
// all are done when a time is over. It counts the time that it is told of, so an
// operation that pauses does not fall behind.
type pace struct {
	rate   float64       // connections a second; 0 if left says when all are to be done
	left   time.Duration // until then
	even   float64       // the rate by which all are done then, in connections a nanosecond
	credit float64       // a part of a connection
}

// longestStep is for how long a pace makes up. After a stall the rate is no higher than
// usual for long.
const longestStep = 500 * time.Millisecond

// step returns how many of the remaining connections are due after another d.
func (p *pace) step(d time.Duration, remaining int) int {
	switch counted := min(d, longestStep); {
	case p.rate > 0:
		p.credit += p.rate * counted.Seconds()
	case p.left <= d:
		p.left = 0
		return remaining
	default:
		// The rate rises if more connections come, or after a stall. It does not fall when
		// some leave by themselves: then all are done before the time is over.
		p.even = max(p.even, (float64(remaining)-p.credit)/float64(p.left))
		p.credit += p.even * float64(counted)
		p.left -= d
	}
	if p.credit >= float64(remaining) {
		p.credit = 0 // nobody is there for whom the rest could be saved
		return remaining
	}
	const rounding = 1e-9
	n := int(p.credit + rounding)
	p.credit -= float64(n)
	return n
}

// expected returns how long the remaining connections will take.
func (p *pace) expected(remaining int) time.Duration {
	switch {
	case remaining == 0:
		return 0
	case p.rate > 0:
		if ns := float64(remaining) / p.rate * float64(time.Second); ns < math.MaxInt64 {
			return time.Duration(ns)
		}
		return math.MaxInt64
	}
	if ns := float64(remaining) / p.even; ns < float64(p.left) { // also if the rate is not known yet
		return time.Duration(ns)
	}
	return p.left
}
