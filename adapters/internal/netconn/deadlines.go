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

// setDeadline sets a deadline of inner. If the connection has timed out, it restores the deadline
// in the past that Expire has set.
//
// Removing a deadline that is not set costs nothing. Servers do that often: net/http four times
// per request. After NetConn, c can't know which deadlines are set.
func (c *Conn) setDeadline(set func(time.Time) error, sides uint32, t time.Time) error {
	if t.IsZero() && !c.userDeadlines.may(sides) && c.flags.Load()&expired == 0 {
		return nil
	}
	if sides&writeDeadline != 0 {
		c.setFlag(farewell, false)
	}
	has := c.userDeadlines.lock()
	err := set(t)
	if t.IsZero() {
		has &^= sides
	} else {
		has |= sides
	}
	c.userDeadlines.unlock(has)
	if c.flags.Load()&expired != 0 {
		c.fail()
	}
	return err
}

// patience is how long the last writes to a connection that has timed out may wait.
const patience = time.Second

// Farewell is called before the last writes to a connection that has timed out. They fail when they
// have waited for the peer for a second. The second begins when a write has to wait, because a
// busy machine may take longer than that to get there. It begins at once if a write is under way,
// which may be waiting already, or if nobody reports when one waits.
func (c *Conn) Farewell() {
	c.SetWriteDeadline(time.Time{})
	if c.flags.Or(farewell)&notifies != 0 && c.writing.TryLock() {
		c.writing.Unlock()
		return
	}
	c.limitFarewell()
}

// limitFarewell lets the second begin.
func (c *Conn) limitFarewell() { c.SetWriteDeadline(time.Now().Add(patience)) }

// LetWrite is called before Expire if the owner may hold back output, which would be lost. Then
// only reads fail, by which the owner notices, and its writes are the last ones; see Farewell.
func (c *Conn) LetWrite() {
	c.Farewell()
	c.flags.Or(writesOn)
}

// fail makes reads and writes fail, or reads only after LetWrite.
func (c *Conn) fail() error {
	if c.flags.Load()&writesOn != 0 {
		return c.inner.SetReadDeadline(past())
	}
	return c.inner.SetDeadline(past())
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
