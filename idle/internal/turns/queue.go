// Package turns decides which of many connections is next, and how many may have their turn in a
// step. It knows neither what a connection is nor what happens to it.
package turns

import (
	"iter"
	"math/rand/v2"
	"slices"
)

// A Candidate is a connection whose turn may come.
type Candidate[C any] struct {
	Conn C
	Last uint32 // the stamp of the last use that is known, or what else it is sorted by
}

// ByLast compares candidates: the one with the earlier stamp comes first. The stamps must be less
// than 2³¹ ticks apart.
func ByLast[C any](a, b Candidate[C]) int { return int(int32(a.Last - b.Last)) }

// A Queue has the most idle candidate first.
//
// The stamps of candidates become stale when their connections are active. Candidates without
// activity since they were sorted are more idle than all others, so they come first. The others
// ("moved") are sorted when only they are left. If there are many, sorting takes too long for one
// step, and most of them would move again before their turn. So then a random sample is sorted,
// and its most idle candidates come next. On average they are among the most idle 5 %.
//
// Candidates that are added later wait with those that have moved, because most of them were
// tracked later.
type Queue[C any] struct {
	look   func(C) (last uint32, live bool)
	sorted []Candidate[C] // the most idle one last
	moved  []Candidate[C] // those with activity since they were sorted, in no order
}

const (
	looksPerTurn = 20
	leastLooks   = 8192    // of those that have moved, in a step: about a millisecond
	sortedLooks  = 1 << 16 // of those that are sorted, in a step
)

// NewQueue returns an empty queue. look returns the stamp of a connection's last use as it is now,
// and whether the connection is live.
func NewQueue[C any](look func(C) (last uint32, live bool)) Queue[C] { return Queue[C]{look: look} }

// Len returns the number of candidates. Some may have ended.
func (q *Queue[C]) Len() int { return len(q.sorted) + len(q.moved) }

// All returns all connections, in no order.
func (q *Queue[C]) All() iter.Seq[C] {
	return func(yield func(C) bool) {
		for _, c := range slices.Concat(q.sorted, q.moved) {
			if !yield(c.Conn) {
				return
			}
		}
	}
}

// Add adds candidates.
func (q *Queue[C]) Add(all []Candidate[C]) {
	first := q.Len() == 0
	if q.moved = append(q.moved, all...); first {
		q.sortMoved()
	}
}

// sortMoved sorts those that have moved, when no others are left.
func (q *Queue[C]) sortMoved() {
	q.sorted, q.moved = q.moved, nil
	q.sort(q.sorted)
}

// sort brings the stamps of candidates up to date, and sorts them, the most idle one last.
func (q *Queue[C]) sort(all []Candidate[C]) {
	for i := range all {
		all[i].Last, _ = q.look(all[i].Conn)
	}
	slices.SortFunc(all, func(a, b Candidate[C]) int { return ByLast(b, a) })
}

// Take removes and returns the next n candidates that are live and wanted, or all if there are
// fewer. Those that have ended, and those that are not wanted, are removed too.
func (q *Queue[C]) Take(n int, wants func(C) bool) (some []Candidate[C]) {
	for looks := 0; len(some) < n && looks < sortedLooks && len(q.sorted) > 0; looks++ {
		c := pop(&q.sorted)
		switch last, live := q.look(c.Conn); {
		case !live:
		case last != c.Last:
			q.moved = append(q.moved, c)
		case wants(c.Conn):
			some = append(some, c)
		}
	}
	for len(some) < n && len(q.moved) > 0 {
		looks := max(leastLooks, (n-len(some))*looksPerTurn)
		if looks >= len(q.moved) && len(q.sorted) == 0 {
			q.sortMoved()
			return append(some, q.Take(n-len(some), wants)...)
		}
		looks = min(looks, len(q.moved))
		for i := range looks {
			last := len(q.moved) - 1 - i
			other := rand.IntN(last + 1)
			q.moved[last], q.moved[other] = q.moved[other], q.moved[last]
		}
		q.sort(q.moved[len(q.moved)-looks:])
		for ; looks > 0 && len(some) < n; looks-- {
			if c := pop(&q.moved); q.isLive(c) && wants(c.Conn) {
				some = append(some, c)
			}
		}
	}
	return some
}

// Prune removes candidates that have ended.
func (q *Queue[C]) Prune() {
	hasEnded := func(c Candidate[C]) bool { return !q.isLive(c) }
	q.sorted = slices.DeleteFunc(q.sorted, hasEnded)
	q.moved = slices.DeleteFunc(q.moved, hasEnded)
}

// isLive reports whether c has not ended.
func (q *Queue[C]) isLive(c Candidate[C]) bool {
	_, live := q.look(c.Conn)
	return live
}

// pop removes and returns the last of some candidates.
func pop[C any](from *[]Candidate[C]) (c Candidate[C]) {
	last := len(*from) - 1
	c, (*from)[last] = (*from)[last], c
	*from = (*from)[:last]
	return c
}
