package idlenet

import (
	"net"
	"syscall"

	"github.com/idlewheel/idlewheel/adapters/internal/kernel"
	"github.com/idlewheel/idlewheel/idle"
)

// examine tells the tracker what the kernel knows.
func (c *Conn) examine() idle.Evidence {
	r := c.report()
	e := r.Evidence()
	e.Unreported = c.claim(r.Acked)
	if r.QueuedKnown && r.Out == 0 && c.isWriting() && c.movedSince(r.Queued) {
		e.Out = 1
	}
	if c.marks.Load()&refused != 0 {
		e.Out = 0
	}
	return e
}

// isWriting reports whether a write is going on.
func (c *Conn) isWriting() bool {
	if c.writing.TryLock() {
		c.writing.Unlock()
		return false
	}
	return true
}

// movedSince reports whether the kernel's queue may have moved since it was
// last looked at in the present write. It is for sockets, like Unix ones, of
// which the kernel does not tell when.
//
// The first look is when the write begins to wait (WriteWaits). Where it cannot be, as
// the user's own wrapper is between, the answer to the first question is yes, which
// is late for a peer that takes nothing, but never early for a slow one.
func (c *Conn) movedSince(queued uint64) bool {
	c.marks.Or(sampled)
	return c.queued.Swap(uint32(queued)) != uint32(queued)
}

// report asks the kernel. It knows nothing if the connection is not a kernel's, or
// is closed already, or the system has no way to ask.
func (c *Conn) report() (r kernel.Report) {
	sc := socketUnder(c.inner)
	if sc == nil {
		return r
	}
	if raw, err := sc.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) { r = kernel.Inspect(fd) })
	}
	return r
}

// socketUnder returns the socket that nc is or wraps, nil if it tells of none.
func socketUnder(nc net.Conn) syscall.Conn {
	for {
		if sc, ok := nc.(syscall.Conn); ok {
			return sc
		}
		wrapper, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		nc = wrapper.NetConn()
	}
}
