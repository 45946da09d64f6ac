package netconn

import (
	"github.com/idlewheel/idlewheel/adapters/internal/kernel"
	"github.com/idlewheel/idlewheel/idle"
)

// examine returns what the kernel knows about the connection, which seems to have passed the
// given limit.
func (c *Conn) examine(about idle.Reason) idle.SocketState {
	r := c.Inspect()
	e := r.Evidence()
	if c.flags.Load()&waited != 0 { // after Inspect, see awaitWrite
		e.Unreported = c.credit.Take(r.Acked)
	}
	if r.QueuedKnown && r.Out == 0 && c.isWriting() && c.movedSince(r.Queued) {
		e.Out = 1
	}
	if about == idle.ReasonMinWriteRate {
		c.adoptRate(&e)
	}
	return e
}

// isWriting reports whether a write is under way.
func (c *Conn) isWriting() bool {
	if c.writing.TryLock() {
		c.writing.Unlock()
		return false
	}
	return true
}

// IsReading reports whether a Read is under way.
func (c *Conn) IsReading() bool {
	if c.reading.TryLock() {
		c.reading.Unlock()
		return false
	}
	return true
}

// movedSince reports whether the kernel's send queue may have moved since the last check in the
// current write. It's for sockets for which the kernel doesn't report when output last moved,
// such as Unix sockets.
//
// WriteWaits makes the first check, when the write begins to wait. If a wrapper of the user's is
// in between, WriteWaits isn't called, and the first call of movedSince returns true. That makes
// a timeout late for a peer that doesn't read, but never early for a slow one.
func (c *Conn) movedSince(queued uint64) bool {
	c.flags.Or(sampled)
	return c.queued.Swap(uint32(queued)) != uint32(queued)
}

// Inspect asks the kernel about the connection.
func (c *Conn) Inspect() kernel.Report { return kernel.InspectConn(c.inner) }
