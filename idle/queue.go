package idle

import (
	"container/heap"
	"slices"
)

// A queue has the most idle candidate first, as far as it has looked.
//
// The stamps of candidates become stale when their connections are active, and nothing
// but a look tells that. When the turn comes to a million connections that are active now
// and then, all have to be looked at to find the most idle one, which takes too long for
// one step. So a step allows leastLooks looks, or looksPerTurn for each turn if that is
// more. If they do not suffice, the most idle of those that were looked at has its turn.
// So many a turn as are not needed look ahead, at candidates whose turn comes later.
//
// When all were looked at, they are sorted anew. That is done once for every twentieth
// part of them that has its turn.
type queue struct {
	sorted []candidate // the most idle one last
	looked idleHeap    // those that were found to have been active since they were sorted
	ahead  int         // sorted[ahead:] was looked at
	holes  int         // in sorted, where candidates were that are in looked
	looks  int         // how many are allowed until grant is called again
	spare  int         // how many may look ahead
}

const (
	looksPerTurn = 20
	leastLooks   = 8192 // about a millisecond
)

// grant allows the looks of a step with n turns.
func (q *queue) grant(n int) {
	q.spare = n * looksPerTurn
	q.looks = max(q.spare, leastLooks)
}

func (q *queue) len() int { return len(q.sorted) - q.holes + len(q.looked) }

// all returns the candidates in no particular order.
func (q *queue) all() []candidate {
	return slices.DeleteFunc(slices.Concat(q.sorted, q.looked), candidate.isHole)
}

// add adds candidates.
func (q *queue) add(all ...candidate) {
	if q.len() == 0 {
		q.sorted, q.holes = all, 0
		q.sort()
		return
	}
	for _, c := range all {
		q.looked.push(c)
	}
}

// sort puts all candidates in order. It does not allocate, as those that were looked at
// have left their places in sorted.
func (q *queue) sort() {
	q.sorted = append(slices.DeleteFunc(q.sorted, candidate.isHole), q.looked...)
	slices.SortFunc(q.sorted, byLaterStamp)
	clear(q.looked)
	q.looked, q.ahead, q.holes = q.looked[:0], len(q.sorted), 0
}

func (c candidate) isHole() bool { return c.conn == nil }

// lookAhead uses the looks that are left.
func (q *queue) lookAhead() {
	for q.spare = min(q.spare, q.looks); q.spare > 0 && q.ahead > 0; q.spare-- {
		q.ahead--
		c := &q.sorted[q.ahead]
		if c.isHole() {
			continue
		}
		if stamp := c.conn.lastActivity().Bits(); stamp != c.last {
			c.last = stamp
			q.looked.push(*c)
			*c = candidate{}
			q.holes++
		}
	}
	if q.spare > 0 && len(q.looked) > 0 {
		q.sort()
	}
}

// sweep looks at n candidates from index i on, and removes those that have ended. It
// returns where to go on: at 0 after the last one. It may miss some, as those that are
// left move.
func (q *queue) sweep(i, n int) (next int) {
	for range n {
		switch j := i - len(q.sorted); {
		case j < 0:
			if c := &q.sorted[i]; !c.isHole() && !c.conn.Live() {
				*c = candidate{}
				q.holes++
			}
			i++
		case j >= len(q.looked):
			return 0
		case q.looked[j].conn.Live():
			i++
		default:
			q.looked.drop(j)
		}
	}
	return i
}

// next removes and returns the candidate whose turn it is. It is live, and idle since its
// stamp. Those that have ended are removed too.
func (q *queue) next() (c candidate, ok bool) {
	for q.len() > 0 {
		if c = q.pop(); c.isHole() {
			continue
		}
		switch stamp := c.conn.lastActivity().Bits(); {
		case !c.conn.Live():
		case stamp != c.last:
			c.last = stamp
			q.looked.push(c)
			q.looks--
		default:
			return c, true
		}
	}
	*q = queue{}
	return candidate{}, false
}

// pop removes and returns the candidate to look at next, or a hole.
func (q *queue) pop() (c candidate) {
	if len(q.sorted) == 0 {
		q.sort()
	}
	last := len(q.sorted) - 1
	c = q.sorted[last]
	if !c.isHole() && len(q.looked) > 0 {
		mayNotLook := q.looks <= 0 && last < q.ahead
		if mayNotLook || byStamp(q.looked[0], c) < 0 {
			return q.looked.pop()
		}
	}
	if c.isHole() {
		q.holes--
	}
	q.sorted[last] = candidate{}
	q.sorted = q.sorted[:last]
	q.ahead = min(q.ahead, last)
	return c
}

// An idleHeap has the most idle candidate on top. It implements heap.Interface.
type idleHeap []candidate

func (h idleHeap) Len() int           { return len(h) }
func (h idleHeap) Less(i, j int) bool { return byStamp(h[i], h[j]) < 0 }
func (h idleHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push and Pop are not used, as they would allocate.
func (h *idleHeap) Push(any) { panic("idle: use push") }
func (h *idleHeap) Pop() any { panic("idle: use pop") }

func (h *idleHeap) push(c candidate) {
	*h = append(*h, c)
	heap.Fix(h, len(*h)-1)
}

func (h *idleHeap) pop() (c candidate) {
	c = (*h)[0]
	h.drop(0)
	return c
}

// drop removes the candidate at index i.
func (h *idleHeap) drop(i int) {
	last := len(*h) - 1
	(*h)[i] = (*h)[last]
	(*h)[last] = candidate{}
	if *h = (*h)[:last]; i < last {
		heap.Fix(h, i)
	}
}
