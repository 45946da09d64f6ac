package idle

import (
	"sync/atomic"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// A dismissal says which connection is to be ended, and how.
type dismissal struct {
	conn   *Conn
	reason Reason
	cause  string
	forced bool        // although it is in use, or its OnTimeout is running
	last   clock.Stamp // of the last use that is known; a later use averts the end, unless it is zero

	drain    *Draining // nil, or it has to be under way still
	capacity *Capacity // nil, or it has to be set still, and to want the connection
}

// A mailbox has the dismissals that other goroutines want a shard to carry out. Passes do that. The shard's lock
// guards it.
type mailbox struct {
	some   atomic.Bool // tasks is not empty; may be loaded without the lock
	tasks  []dismissal
	closed bool
}

// take appends up to n tasks to buf.
func (m *mailbox) take(buf []dismissal, n int) []dismissal {
	n = min(n, len(m.tasks))
	buf = append(buf, m.tasks[:n]...)
	clear(m.tasks[:n])
	if m.tasks = m.tasks[n:]; len(m.tasks) == 0 {
		m.tasks = nil
		m.some.Store(false)
	}
	return buf
}

// post has d carried out in a pass of its shard. It returns false if the shard is closed. Any goroutine may call it.
func (d dismissal) post() bool {
	s := d.conn.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mail.closed {
		return false
	}
	s.mail.tasks = append(s.mail.tasks, d)
	s.mail.some.Store(true)
	s.clock.Hurry()
	return true
}

// doTasks carries out a few dismissals, and reports whether others are left. Like a pass, it must not
// run twice at a time.
func (s *Shard) doTasks() (more bool) {
	s.mu.Lock()
	s.tasks = s.mail.take(s.tasks[:0], jobsPerLock)
	s.mu.Unlock()
	for _, d := range s.tasks {
		if s.dismiss(d) && d.reason == ReasonEvict {
			s.spareEvicting(d.conn)
		}
	}
	clear(s.tasks)
	return s.mail.some.Load()
}

// closeMail closes the mailbox, and carries out what is forced. The other connections are handed back.
func (s *Shard) closeMail() {
	s.mu.Lock()
	s.mail.closed = true
	left := s.mail.take(nil, len(s.mail.tasks))
	s.mu.Unlock()
	for _, d := range left {
		if d.forced {
			s.dismiss(d)
		}
	}
}

// dismiss ends a connection, if d's drain or capacity is still in force. Unless d is forced, it spares one that is in
// use, was used since d.last, is being asked, isn't wanted by the capacity any more, or whose reader has just cleared
// ending. It reports whether the connection goes on.
func (s *Shard) dismiss(d dismissal) (goesOn bool) {
	c, t, need := d.conn, s.tracker, uint32(live|ending)
	switch st := c.state.Load(); {
	case st&live == 0:
		return false
	case d.forced:
		need = live
	case st&asking != 0: // it's busy, and the flag ending is for the answer
		return true
	case !s.mayEnd(d):
		c.state.spare()
		return true
	}
	err := &TimeoutError{
		Reason: d.reason, Phase: c.limits().policy.Name, Cause: d.cause, Elapsed: s.clock.Moment().Since(c.lastUse()),
	}
	inForce := func(*limits) bool {
		return (d.drain == nil || d.drain == t.draining.Load()) && (d.capacity == nil || d.capacity == t.room.limit.Load())
	}
	if s.end(c, inForce, need, err, 0) {
		return false
	}
	if !d.forced { // the reason is no longer in force, or a reader has taken the mark back
		c.state.spare()
	}
	return c.Live()
}

// mayEnd reports whether a connection may be ended without force. It sets the flag ending before it checks.
// See [Conn.Deliver].
func (s *Shard) mayEnd(d dismissal) bool {
	c := d.conn
	c.state.move(live, ending, 0)
	if d.last != (clock.Stamp{}) && d.last != c.lastUse() || s.isInUse(c, d.reason) {
		return false
	}
	return d.capacity == nil || d.capacity.wants(c, s.clock.Moment()) // asked after the owner, who may know of a later activity
}

// isInUse reports whether the connection is busy, has input that its owner has not read
// yet, or has output that waits to be sent. An eviction doesn't wait for bytes that are only on
// their way. MinIdle protects a peer that receives them, because they count as use.
func (s *Shard) isInUse(c *Conn, reason Reason) bool {
	if c.isBusy() {
		return true
	}
	if c.hooks.Probe == nil {
		return c.out.waits()
	}
	e := s.probe(c, reason, false)
	return e.Unread || c.out.waits() && !e.NotWriting && !e.OutEmpty || e.Sending && reason != ReasonEvict || c.isBusy()
}

// End ends the connection, busy or not, for a cause that the caller names. Neither OnTimeout nor
// OnDrain is called, but OnEnd is. Reads and writes fail with a [TimeoutError] that has
// [ReasonShed] and the cause, and Stats.Causes counts the cause. The connection ends in the next
// pass of its shard, even if OnTimeout is running, or when its tracker is closed before that. Any
// goroutine may call End, even if the [Shard] is driven by a loop. A second End has no effect, nor
// has one on a connection that isn't live.
func (c *Conn) End(cause string) {
	if c.state.move(live, dismissed, 0) {
		dismissal{conn: c, reason: ReasonShed, cause: cause, forced: true}.post() // without effect if the shard is closed, because c is handed back then
	}
}
