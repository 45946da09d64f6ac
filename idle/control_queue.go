package idle

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// A queue has the most idle candidate first.
//
// The stamps of candidates become stale when their connections are active. Candidates without
// activity since they were sorted are more idle than all others, so they come first. The others
// ("moved") are sorted when only they are left. If there are many, sorting takes too long for one
// step, and most of them would move again before their turn. So then a random sample is sorted,
// and its most idle candidates come next. On average they are among the most idle 5 %.
//
// Candidates that are added later wait with those that have moved, because most of them were
// tracked later.
type queue struct {
	sorted []candidate // the most idle one last
	moved  []candidate // those with activity since they were sorted, in no order
}

const (
	looksPerTurn = 20
	leastLooks   = 8192    // of those that have moved, in a step: about a millisecond
	sortedLooks  = 1 << 16 // of those that are sorted, in a step
)

func (q *queue) len() int { return len(q.sorted) + len(q.moved) }

// add adds candidates.
func (q *queue) add(all []candidate) {
	first := q.len() == 0
	if q.moved = append(q.moved, all...); first {
		q.sort()
	}
}

// sort sorts those that have moved, when no others are left.
func (q *queue) sort() {
	q.sorted, q.moved = q.moved, nil
	sortMostIdleLast(q.sorted)
}

// sortMostIdleLast brings the stamps of candidates up to date, and sorts them.
func sortMostIdleLast(all []candidate) {
	for i := range all {
		all[i].last = all[i].conn.lastUse().Bits()
	}
	slices.SortFunc(all, byLaterStamp)
}

// take removes and returns the next n candidates that are live and wanted, or all if there are
// fewer. Those that have ended, and those that are not wanted, are removed too.
func (q *queue) take(n int, wants func(*candidate) bool) (some []candidate) {
	for looks := 0; len(some) < n && looks < sortedLooks && len(q.sorted) > 0; looks++ {
		c := pop(&q.sorted)
		switch last := c.conn.lastUse().Bits(); {
		case !c.conn.Live():
		case last != c.last:
			q.moved = append(q.moved, c)
		case wants(&c):
			some = append(some, c)
		}
	}
	for len(some) < n && len(q.moved) > 0 {
		looks := max(leastLooks, (n-len(some))*looksPerTurn)
		if looks >= len(q.moved) && len(q.sorted) == 0 {
			q.sort()
			return append(some, q.take(n-len(some), wants)...)
		}
		looks = min(looks, len(q.moved))
		for i := range looks {
			last := len(q.moved) - 1 - i
			other := rand.IntN(last + 1)
			q.moved[last], q.moved[other] = q.moved[other], q.moved[last]
		}
		sortMostIdleLast(q.moved[len(q.moved)-looks:])
		for ; looks > 0 && len(some) < n; looks-- {
			if c := pop(&q.moved); c.conn.Live() && wants(&c) {
				some = append(some, c)
			}
		}
	}
	return some
}

// prune removes candidates that have ended.
func (q *queue) prune() {
	hasEnded := func(c candidate) bool { return !c.conn.Live() }
	q.sorted = slices.DeleteFunc(q.sorted, hasEnded)
	q.moved = slices.DeleteFunc(q.moved, hasEnded)
}

// pop removes and returns the last of some candidates.
func pop(from *[]candidate) (c candidate) {
	last := len(*from) - 1
	c, (*from)[last] = (*from)[last], candidate{}
	*from = (*from)[:last]
	return c
}

// A pace says when the next of many connections is due: at a rate, or evenly so that all are done
// when a time is over. It counts only the time that is passed to it, so an operation that pauses
// doesn't fall behind.
type pace struct {
	rate   float64       // connections per second; 0 if left says when all have to be done
	left   time.Duration // until then
	even   float64       // the rate by which all are done then, in connections a nanosecond
	credit float64       // a part of a connection
}

// longestStep is the longest time that a step makes up for, so that the rate isn't much higher
// after a stall.
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
		// The rate rises if more connections come, or after a stall. It doesn't fall when some
		// leave by themselves; then all are done before the time is over.
		p.even = max(p.even, (float64(remaining)-p.credit)/float64(p.left))
		p.credit += p.even * float64(counted)
		p.left -= d
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
