package idle

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// An outcome says what happened when a connection was to be ended.
type outcome uint8

const (
	gone  outcome = iota // the connection had ended before
	inUse                // nothing was done
	ended                // the connection has been ended
)

// A task is a function that another goroutine wants a shard to run.
type task struct {
	run  func()
	ends bool // it ends a connection that doesn't expect anything else
}

// A mailbox has the tasks of a shard. Passes run them. When the shard is closed, takeAll does: those
// that end a connection first, and the others when no connection is live any more.
type mailbox struct {
	mu     sync.Mutex
	tasks  []task
	closed bool
	some   atomic.Bool // tasks is not empty
}

// add adds a task. It returns false if the shard is closed, so that the task won't run.
func (m *mailbox) add(t task) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	m.tasks = append(m.tasks, t)
	m.some.Store(true)
	return true
}

// take appends up to n tasks to buf.
func (m *mailbox) take(buf []task, n int) []task {
	m.mu.Lock()
	defer m.mu.Unlock()
	n = min(n, len(m.tasks))
	buf = append(buf, m.tasks[:n]...)
	clear(m.tasks[:n])
	if m.tasks = m.tasks[n:]; len(m.tasks) == 0 {
		m.tasks = nil
		m.some.Store(false)
	}
	return buf
}

// close removes the tasks that are left, either those that end a connection or the others, and
// returns them. No more can be added.
func (m *mailbox) close(ends bool) (left []task) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	m.tasks = slices.DeleteFunc(m.tasks, func(t task) bool {
		if t.ends == ends {
			left = append(left, t)
		}
		return t.ends == ends
	})
	m.some.Store(len(m.tasks) > 0)
	return left
}

// do runs a function in a pass of s, where connections may be ended. It returns
// false if s is closed. Any goroutine may call it.
func (s *Shard) do(run func()) bool { return s.mailTask(task{run: run}) }

// mailTask is do for a task.
func (s *Shard) mailTask(t task) bool {
	if !s.mail.add(t) {
		return false
	}
	s.clock.Hurry()
	return true
}

// runLeft closes the mailbox, and runs the tasks that end a connection or the others.
func (s *Shard) runLeft(ends bool) {
	for _, t := range s.mail.close(ends) {
		t.run()
	}
}

// doTasks runs some tasks. It reports whether there are more. Like all of a pass, it must not run
// twice at a time.
func (s *Shard) doTasks() (more bool) {
	s.tasks = s.mail.take(s.tasks[:0], jobsPerLock)
	for _, t := range s.tasks {
		t.run()
	}
	clear(s.tasks)
	return s.mail.some.Load()
}

// A dismissal says how a connection is to be ended.
type dismissal struct {
	reason Reason
	cause  string
	forced bool        // although it is in use, or its OnTimeout is running
	last   clock.Stamp // of the last use that is known; a later use averts the end, unless it is zero

	drain    *Draining   // nil, or it has to be under way still
	capacity *Capacity   // nil, or it has to be set still
	may      func() bool // nil means yes; asked after the owner, who may know of a later activity
}

// dismiss ends c. Unless d is forced, it does nothing if a reader has just delivered something.
func (s *Shard) dismiss(c *Conn, d dismissal) outcome {
	need := uint32(live | ending)
	switch st := c.state.Load(); {
	case st&live == 0:
		return gone
	case d.forced:
		need = live
	case st&asking != 0: // it's busy, and the flag ending is for the answer
		return inUse
	case !s.mayEnd(c, d):
		c.state.spare()
		return inUse
	}
	err := &TimeoutError{
		Reason: d.reason, Phase: c.limits().policy.Name, Cause: d.cause, Elapsed: s.clock.Moment().Since(c.lastUse()),
	}
	t := s.tracker
	inForce := func(*limits) bool {
		return (d.drain == nil || d.drain == t.draining.Load()) && (d.capacity == nil || d.capacity == t.room.limit.Load())
	}
	switch {
	case s.end(c, inForce, need, err, 0):
		return ended
	case !c.Live():
		return gone
	case !d.forced: // the reason is no longer in force, or a reader has taken the mark back
		c.state.spare()
	}
	return inUse
}

// mayEnd reports whether c may be ended without force. It sets the flag ending before it checks.
// See [Conn.Deliver].
func (s *Shard) mayEnd(c *Conn, d dismissal) bool {
	c.state.move(live, ending, 0)
	if d.last != (clock.Stamp{}) && d.last != c.lastUse() || s.isInUse(c, d.reason) {
		return false
	}
	return d.may == nil || d.may()
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
	e := s.probe(c, reason)
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
		c.shard.mailTask(task{ends: true, run: func() { // without effect if the shard is closed, because c is handed back then
			c.shard.dismiss(c, dismissal{reason: ReasonShed, cause: cause, forced: true})
		}})
	}
}
