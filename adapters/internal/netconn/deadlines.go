package netconn

import (
	"runtime"
	"sync/atomic"
	"time"
)

// SetDeadline sets the user's own read and write deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	return c.setDeadline(c.inner.SetDeadline, readDeadline|writeDeadline, t)
}

// SetReadDeadline sets the user's own read deadline.
func (c *Conn) SetReadDeadline(t time.Time) error {
	return c.setDeadline(c.inner.SetReadDeadline, readDeadline, t)
}

// SetWriteDeadline sets the user's own write deadline.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	return c.setDeadline(c.inner.SetWriteDeadline, writeDeadline, t)
}

// setDeadline sets a deadline of inner, and restores those in the past that a timeout has set. Otherwise crypto/tls,
// which allows its closing alert five seconds, would write that after half a record.
//
// Removing a deadline that is not set costs nothing. Servers do that often: net/http four times
// per request. After NetConn, c can't know which deadlines are set.
func (c *Conn) setDeadline(set func(time.Time) error, sides uint32, t time.Time) error {
	if t.IsZero() && !c.userDeadlines.may(sides) && c.flags.Load()&over == 0 {
		return nil
	}
	has := c.userDeadlines.lock()
	err := set(t)
	if t.IsZero() {
		has &^= sides
	} else {
		has |= sides
	}
	c.userDeadlines.unlock(has)
	if c.flags.Load()&over != 0 {
		c.inner.SetReadDeadline(past())
	}
	if c.flags.Load()&closed != 0 || isWriteTimeout(c.Timeout()) {
		c.inner.SetWriteDeadline(past())
	}
	return c.explain("set", err)
}

// LetWrite is called in OnEnd if the owner may hold back output, which would be lost. Reads fail, by which the owner notices.
// LetWrite returns when it has closed the connection, or when its time is up.
func (c *Conn) LetWrite() {
	done := make(chan struct{})
	c.extra.Update(func(x *extra) { x.onClose = func() { close(done) } })
	if c.setOver() { // otherwise it may have been closed before closeInner could see onClose
		c.inner.SetReadDeadline(past())
		<-done
	}
}

// past returns a deadline that has passed whatever the clock says.
func past() time.Time { return time.Unix(1, 0) }

// deadlines is the set of deadlines that the inner connection may have, and a
// spin lock. The lock makes the order of the stores match that of the calls when
// two goroutines set deadlines.
type deadlines struct{ atomic.Uint32 }

const (
	readDeadline = 1 << iota
	writeDeadline
	locked
	exposed // NetConn has been called, so deadlines may be set past c
)

// may reports whether a deadline may be set on one of the sides.
func (d *deadlines) may(sides uint32) bool { return d.Load()&(sides|locked|exposed) != 0 }

// lock acquires the lock, which is held only briefly, and returns which deadlines
// may be set.
func (d *deadlines) lock() (has uint32) {
	for {
		has = d.Load()
		if has&locked == 0 && d.CompareAndSwap(has, has|locked) {
			return has
		}
		runtime.Gosched()
	}
}

func (d *deadlines) unlock(has uint32) { d.Store(has) }
