package idle

import (
	"math"
	"slices"
	"time"
)

// A queue has the most idle candidate first.
//
// The stamps of candidates become stale when their connections are active, and nothing but a
// look tells that. Whoever has not moved since the candidates were sorted is more idle than
// all who have. So those that have moved wait until none of the others is left, and are then
// sorted in turn. So do those that are added later, as most of them were tracked later.
//
// If all have moved, all would have to be looked at to find the most idle one, which takes
// too long for one step. So a step allows leastLooks looks, or looksPerTurn for each turn if
// that is more. When they are used up, the most idle of those that were looked at in this
// step have their turn: each is among the most idle twentieth, on average. As many looks of
// looksPerTurn as are not needed look ahead, at candidates whose turn comes later.
type queue struct {
	ready  []candidate // those of sorted that had not moved when they were looked at ahead; the most idle one first
	sorted []candidate // the most idle one last; more active than those in ready
	moved  []candidate // those that have moved since they were sorted, in no order
	batch  int         // moved[batch:] was looked at in this step
	holes  int         // of all these, where candidates were that have ended
	looks  int         // how many are allowed until grant is called again
	spare  int         // how many of them may look ahead
}

const (
	looksPerTurn = 20
	leastLooks   = 8192 // about a millisecond
)

// grant allows the looks of a step with n turns.
func (q *queue) grant(n int) {
	q.spare = n * looksPerTurn
	q.looks = max(q.spare, leastLooks)
	q.batch = len(q.moved)
}

func (q *queue) len() int { return len(q.ready) + len(q.sorted) + len(q.moved) - q.holes }

// all returns the candidates in no particular order.
func (q *queue) all() []candidate {
	return slices.DeleteFunc(slices.Concat(q.ready, q.sorted, q.moved), candidate.isHole)
}

// add adds candidates.
func (q *queue) add(all ...candidate) {
	if q.len() == 0 {
		*q = queue{moved: all, looks: q.looks, spare: q.spare}
		q.sort()
		return
	}
	q.moved = append(q.moved, all...)
}

// sort sorts those that have moved, when no other ones are left. Their stamps have to be those
// of one moment.
func (q *queue) sort() {
	had := len(q.moved)
	q.sorted = slices.DeleteFunc(q.moved, candidate.isHole)
	q.holes -= had - len(q.sorted)
	for i := range q.sorted {
		q.sorted[i].last = q.sorted[i].conn.lastUse().Bits()
	}
	slices.SortFunc(q.sorted, byLaterStamp)
	q.ready, q.moved, q.batch = nil, nil, 0
}

func (c candidate) isHole() bool { return c.conn == nil }

// lookAhead uses the looks that are left.
func (q *queue) lookAhead() {
	for q.spare = min(q.spare, q.looks); q.spare > 0 && len(q.sorted) > 0; q.spare-- {
		if c := pop(&q.sorted); c.isHole() {
			q.holes--
		} else if !q.hasMoved(c) {
			q.ready = append(q.ready, c)
		}
	}
}

// hasMoved reports whether c has moved since it was sorted, and puts it where it belongs in
// that case.
func (q *queue) hasMoved(c candidate) bool {
	stamp := c.conn.lastUse().Bits()
	if stamp == c.last {
		return false
	}
	q.moved = append(q.moved, candidate{c.conn, stamp})
	return true
}

// sweep looks at n candidates from index i on, and removes those that have ended. It
// returns where to go on: at 0 after the last one. It may miss some, as those that are
// left move.
func (q *queue) sweep(i, n int) (next int) {
	for ; n > 0; n-- {
		list, at := q.ready, i
		if at >= len(list) {
			list, at = q.sorted, at-len(list)
		}
		if at >= len(list) {
			list, at = q.moved, at-len(list)
		}
		if at >= len(list) {
			return 0
		}
		if c := &list[at]; !c.isHole() && !c.conn.Live() {
			*c = candidate{}
			q.holes++
		}
		i++
	}
	return i
}

// next removes and returns the candidate whose turn it is. It is live, and idle since its
// stamp. Those that have ended are removed too.
func (q *queue) next() (c candidate, ok bool) {
	for q.len() > 0 {
		switch c = q.pop(); {
		case c.isHole():
			q.holes--
		case !c.conn.Live():
		case q.looks <= 0:
			c.last = c.conn.lastUse().Bits()
			return c, true
		case !q.hasMoved(c):
			return c, true
		default:
			if q.looks--; q.looks == 0 {
				slices.SortFunc(q.moved[q.batch:], byLaterStamp)
			}
		}
	}
	*q = queue{}
	return candidate{}, false
}

// pop removes and returns the candidate to look at next, or a hole.
func (q *queue) pop() (c candidate) {
	switch {
	case q.looks <= 0 && len(q.moved) > q.batch:
		return pop(&q.moved)
	case len(q.ready) > 0:
		c, q.ready[0] = q.ready[0], candidate{}
		if q.ready = q.ready[1:]; len(q.ready) == 0 {
			q.ready = nil
		}
		return c
	case len(q.sorted) == 0:
		q.sort()
	}
	return pop(&q.sorted)
}

// pop removes and returns the last of some candidates. If there is none, it returns a hole.
func pop(from *[]candidate) (c candidate) {
	last := len(*from) - 1
	c, (*from)[last] = (*from)[last], candidate{}
	*from = (*from)[:last]
	return c
}

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
