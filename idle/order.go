package idle

import (
	"sync"
	"sync/atomic"
)

// A candidate is a connection that an operation has met. Its generation tells whether
// it has been tracked anew since. Only its shard may look into it.
type candidate struct {
	conn  *Conn
	lane  *lane  // of its shard
	state uint32 // when it was met
	last  uint32 // the stamp of the last activity that is known; in a census, what it is sorted by
}

// byStamp compares candidates: one with an earlier stamp comes first. The stamps must be less
// than 2³¹ ticks apart.
func byStamp(a, b candidate) int { return int(int32(a.last - b.last)) }

// byLaterStamp is the opposite of byStamp.
func byLaterStamp(a, b candidate) int { return byStamp(b, a) }

// isLive reports whether c is still tracked as it was.
func (c *candidate) isLive() bool {
	st := c.conn.state.Load()
	return sameGen(st, c.state) && st&live != 0
}

// An order tells a shard what to do with a connection. The next pass does it.
type order struct {
	candidate
	what   command
	forced bool // although the connection is in use
	still  bool // only if there has been no activity since candidate.last
	reason Reason
	cause  string
	show   func(job)            // for the command show: called while the connection is in the wheel
	report func(order, outcome) // called with what has come of the order; nil if nobody wants to know
}

// hasMoved reports whether there has been an activity since the order was given, if that
// matters.
func (o *order) hasMoved() bool { return o.still && o.conn.lastActivity() != o.last }

// A command is what an order is about.
type command uint8

const (
	tell      command = iota // ask the owner to finish
	terminate                // end the connection
	show                     // call order.show
)

// An outcome is what has come of an order.
type outcome uint8

const (
	gone  outcome = iota // the connection had ended before
	inUse                // nothing was done
	told                 // the owner is being asked
	ended                // the connection has been ended
)

// orders are the orders that a shard has not carried out yet.
type orders struct {
	mu     sync.Mutex
	queue  []order
	closed bool
	some   atomic.Bool // queue is not empty
}

// add adds orders. It reports whether they will be carried out.
func (q *orders) add(more ...order) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.queue = append(q.queue, more...)
	q.some.Store(true)
	return true
}

// take appends up to n orders to buf.
func (q *orders) take(buf []order, n int) []order {
	q.mu.Lock()
	defer q.mu.Unlock()
	n = min(n, len(q.queue))
	buf = append(buf, q.queue[:n]...)
	clear(q.queue[:n])
	if q.queue = q.queue[n:]; len(q.queue) == 0 {
		q.queue = nil
		q.some.Store(false)
	}
	return buf
}

// close returns the orders that are left. No more can be added.
func (q *orders) close() []order {
	q.mu.Lock()
	defer q.mu.Unlock()
	left := q.queue
	q.queue, q.closed = nil, true
	q.some.Store(false)
	return left
}

func (o *order) done(as outcome) {
	if o.report != nil {
		o.report(*o, as)
	}
}
