package idlenet

import (
	"runtime"
	"sync/atomic"
	"time"
)

// SetDeadline sets the user's own deadlines for reading and writing.
func (c *Conn) SetDeadline(t time.Time) error {
	return c.setDeadline(c.inner.SetDeadline, readDeadline|writeDeadline, t)
}

// SetReadDeadline sets the user's own deadline for reading.
func (c *Conn) SetReadDeadline(t time.Time) error {
	return c.setDeadline(c.inner.SetReadDeadline, readDeadline, t)
}

// SetWriteDeadline sets the user's own deadline for writing.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	return c.setDeadline(c.inner.SetWriteDeadline, writeDeadline, t)
}

// setDeadline sets one of inner's deadlines, and sees to it that it does not
// undo the one by which Expire has ended the connection.
//
// Servers remove deadlines more often than they set some: net/http four times a
// request. To remove what is not there costs nothing.
func (c *Conn) setDeadline(set func(time.Time) error, sides uint32, t time.Time) error {
	if t.IsZero() && !c.user.may(sides) {
		return nil
	}
	has := c.user.lock()
	err := set(t)
	if t.IsZero() {
		has &^= sides
	} else {
		has |= sides
	}
	c.user.unlock(has)
	if c.marks.Load()&expired != 0 {
		set(past())
	}
	return err
}

// past is a deadline that has passed, whatever the clock says.
func past() time.Time { return time.Unix(1, 0) }

// deadlines is which deadlines the inner connection may have, and a lock, so that
// two goroutines that set some leave what the last one did.
type deadlines struct{ atomic.Uint32 }

const (
	readDeadline = 1 << iota
	writeDeadline
	locked
)

// may reports whether there may be a deadline on one of the sides.
func (d *deadlines) may(sides uint32) bool { return d.Load()&(sides|locked) != 0 }

// lock waits for others, who take no time, and returns which deadlines there are.
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
