package idle

import (
	"sync"
	"sync/atomic"
)

// A candidate is a connection that an operation or a census has met. Only its shard may look
// into it.
type candidate struct {
	conn *Conn
	last uint32 // the stamp of the last use that is known; in a census, what it is sorted by
}

// byStamp compares candidates: one with an earlier stamp comes first. The stamps must be less
// than 2³¹ ticks apart.
func byStamp(a, b candidate) int { return int(int32(a.last - b.last)) }

// byLaterStamp is the opposite of byStamp.
func byLaterStamp(a, b candidate) int { return byStamp(b, a) }

// An outcome is what has come of telling or ending a connection.
type outcome uint8

const (
	gone  outcome = iota // the connection had ended before
	inUse                // nothing was done
	told                 // the owner is being asked to finish
	ended                // the connection has been ended
)

// A mailbox has what others want a shard to do. Passes do it, or takeAll, when no connection
// is live any more.
type mailbox struct {
	mu     sync.Mutex
	tasks  []func()
	closed bool
	some   atomic.Bool // tasks is not empty
}

// add adds a task. It returns false if the shard is closed, and nobody will do the task.
func (m *mailbox) add(task func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	m.tasks = append(m.tasks, task)
	m.some.Store(true)
	return true
}

// take appends up to n tasks to buf.
func (m *mailbox) take(buf []func(), n int) []func() {
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

// close returns the tasks that are left. No more can be added.
func (m *mailbox) close() []func() {
	m.mu.Lock()
	defer m.mu.Unlock()
	left := m.tasks
	m.tasks, m.closed = nil, true
	m.some.Store(false)
	return left
}
