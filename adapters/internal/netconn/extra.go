package netconn

import (
	"net"

	"github.com/idlewheel/idlewheel/idle"
)

// extra holds what few connections have. It is never changed, only replaced.
type extra struct {
	timeout *idle.TimeoutError // the limit that has passed; nil before
	address *address           // nil for a socket
	counted net.Conn           // what to close instead of Conn.inner, if not nil
	over    chan struct{}      // closed when the flag over is set; nil if nobody waits for that
	turns   [2]chan struct{}   // see turn
	onClose func()             // to be called when c is closed; may be nil
}

// update replaces extra with a copy that change has modified.
func (c *Conn) update(change func(*extra)) {
	for {
		was, next := c.extra.Load(), new(extra)
		if was != nil {
			*next = *was
		}
		change(next)
		if c.extra.CompareAndSwap(was, next) {
			return
		}
	}
}

// timedOut records the limit that has passed.
func (c *Conn) timedOut(err *idle.TimeoutError) {
	c.update(func(x *extra) { x.timeout = err })
}
