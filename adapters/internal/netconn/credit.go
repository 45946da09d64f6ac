package netconn

import (
	"github.com/idlewheel/idlewheel/adapters/internal/kernel"
	"github.com/idlewheel/idlewheel/idle"
)

// Where the kernel counts acknowledged bytes, these count for a minimum write rate, and Write
// does not report what it hands to the kernel. Bytes that merely wait in the kernel don't give a
// slow reader more time.
//
// The rate is over the time in which writes wait, so it counts the bytes that are acknowledged in
// that time. Bytes acknowledged at other times, such as in earlier phases, are dropped when a
// wait begins. A wait lasts from the first time that a write finds no room until the end of the
// write. Meanwhile examine reports what has been acknowledged, and the end of the write reports
// the rest. If a wrapper in between hides when a write has to wait, the wait never ends, and all
// bytes count. On systems without kernel.Stream, bytes of earlier phases and responses don't
// count.
//
// All of this begins only with a minimum write rate: in prepare, when the connection enters a
// phase that has one, or in adoptRate, when the rate first seems too low after SetPolicy has
// given one to the connection's present phase.

// prepare makes c ready for the limits of p.
func (c *Conn) prepare(p idle.Policy) {
	if p.MinWriteRate.BytesPerSecond == 0 {
		return
	}
	if c.startCounting() {
		return
	}
	if m := c.flags.Load(); m&waited != 0 && m&(notifies|plainTCP) != 0 {
		c.credit.Take(kernel.Acked(c.inner))
	}
}

// startCounting makes c ready for a minimum write rate. It returns false if c was ready before.
func (c *Conn) startCounting() bool {
	if c.flags.Or(crediting)&crediting != 0 {
		return false
	}
	r := c.Inspect()
	if !r.AckedKnown {
		c.flags.Or(smallSteps)
		return true
	}
	c.credit.Take(r.Acked)
	c.flags.Or(kernelCounts)
	if c.isWriting() { // it may wait already
		c.flags.Or(waited)
	}
	return true
}

// adoptRate changes e, the state that examine returns for the minimum write rate, if counting had
// not begun before. Until then only whole steps were counted, and the peer may have read most of
// one. So the rate starts over. If the kernel doesn't count either, the peer gets time for the
// step that may be under way; the next ones are small.
func (c *Conn) adoptRate(e *idle.SocketState) {
	if !c.startCounting() {
		return
	}
	e.NotWriting = true
	if c.flags.Load()&smallSteps != 0 {
		e.Unreported = largeStep
	}
}

// awaitWrite reports that a write waits, or may wait.
func (c *Conn) awaitWrite() {
	m := c.flags.Load()
	if m&(kernelCounts|waited) == kernelCounts || m&(kernelCounts|plainTCP|newAccount) == kernelCounts|plainTCP|newAccount {
		c.credit.Take(kernel.Acked(c.inner))
		c.flags.Or(waited) // only now, so that examine does not report the bytes that were just dropped
	}
	if m&newAccount != 0 {
		c.flags.And(^uint32(newAccount))
		c.track.RestartWrite()
		return
	}
	c.track.AwaitWrite()
}

// endWait reports the bytes that have been acknowledged while the write in progress
// waited. c.writing must be held.
func (c *Conn) endWait() {
	n := c.credit.Take(kernel.Acked(c.inner))
	c.flags.And(^uint32(waited))
	if n > 0 && c.flags.Load()&asking == 0 { // OnTimeout's farewell does not count as activity
		c.track.Sent(n)
	}
}

// RestartWriteRate restarts MinWriteRate with the next write that has to wait. It is for servers
// that write one response after another.
func (c *Conn) RestartWriteRate() {
	if c.flags.Load()&(crediting|newAccount) == crediting {
		c.flags.Or(newAccount)
	}
}

// AwaitAcked reports whether the kernel holds bytes that the peer has not acknowledged, or
// a write is under way. Such bytes count as a write that waits until the next write, or
// until the peer has acknowledged them, so the limits of writing apply. It is for servers
// whose small writes never wait, because the kernel has room for them.
func (c *Conn) AwaitAcked() bool {
	if !c.writing.TryLock() {
		return true
	}
	defer c.writing.Unlock()
	if r := c.Inspect(); r.Queued == 0 {
		return false
	}
	c.awaitWrite()
	return true
}
