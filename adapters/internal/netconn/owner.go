package netconn

import (
	"math"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/kernel"
	"github.com/idlewheel/idlewheel/idle"
)

// A Setup has what connections of one kind share; see [Conn.Init].
type Setup struct {
	Hooks idle.Hooks
	in    func(any) *Conn
}

// NewSetup returns a Setup for the callbacks Ping, OnTimeout, OnEnd and OnDrain, any of which may
// be nil. The other hooks are ours. in returns the Conn inside a reader or writer that reads and
// writes exactly like that Conn, or nil; in may be nil.
func NewSetup(callbacks idle.Hooks, in func(any) *Conn) *Setup {
	s := &Setup{Hooks: callbacks, in: in}
	s.Hooks.Probe = func(owner any, about idle.Reason) idle.SocketState { return owner.(isConn).conn().examine(about) }
	s.Hooks.Unsent = func(owner any) int { return int(min(kernel.Queued(owner.(isConn).conn().inner), math.MaxInt32)) }
	s.Hooks.Expire = func(owner any, err *idle.TimeoutError) { owner.(isConn).conn().expire(err) }
	if end := callbacks.OnEnd; end != nil {
		s.Hooks.OnEnd = func(owner any, err *idle.TimeoutError) {
			c, known := owner.(isConn).conn(), *err // a copy, because OnEnd may change err
			c.extra.Update(func(x *extra) { x.timeout = &known })
			c.limitFarewell()
			end(owner, err)
			c.extra.Update(func(x *extra) { x.timeout = err })
		}
	}
	if ask := callbacks.OnTimeout; ask != nil {
		s.Hooks.OnTimeout = func(owner any, err *idle.TimeoutError) bool { return owner.(isConn).conn().onTimeout(ask, owner, err) }
	}
	return s
}

// connIn returns the Conn that v is, or nil if it is none. It doesn't look into wrappers,
// which may read and write in their own way.
func (s *Setup) connIn(v any) *Conn {
	if c, ok := v.(*Conn); ok || s.in == nil {
		return c
	}
	return s.in(v)
}

// limitFarewell prepares for what OnEnd writes. A peer that doesn't read gets nothing, so a write fails at once. Otherwise
// no deadline applies that was set before, but the connection is closed a second later at the latest.
func (c *Conn) limitFarewell() {
	switch {
	case isWriteTimeout(c.Timeout()):
		c.inner.SetWriteDeadline(past())
	case c.userDeadlines.may(writeDeadline):
		c.inner.SetWriteDeadline(time.Time{})
	}
}

// expire closes the connection. That can't block, whatever the user has set with SetLinger, if it's a plain socket.
func (c *Conn) expire(err *idle.TimeoutError) {
	if c.Timeout() == nil { // otherwise OnEnd may still be changing err
		c.extra.Update(func(x *extra) { x.timeout = err })
	}
	c.setOver()
	linger := -1
	if isWriteTimeout(c.Timeout()) {
		linger = 0 // otherwise the kernel keeps unsent data for minutes
	}
	c.setLinger(linger)
	switch {
	case c.flags.Or(closed)&closed != 0:
	case isSocket(c.bare()):
		c.finish()
	default:
		c.inner.SetDeadline(past()) // Close may wait for a Write
		go c.finish()
	}
}

// setLinger sets what the system does with unsent data when the socket is closed.
func (c *Conn) setLinger(sec int) {
	if socket, ok := kernel.Under[interface{ SetLinger(int) error }](c.inner); ok {
		socket.SetLinger(sec)
	}
}

// isWriteTimeout reports whether err means that the peer doesn't read. err is nil if the tracker
// was closed after the end was decided, but before OnEnd or Expire was called.
func isWriteTimeout(err *idle.TimeoutError) bool {
	return err != nil && (err.Reason == idle.ReasonWrite || err.Reason == idle.ReasonMinWriteRate)
}

// onTimeout calls the user's OnTimeout. While it runs for IdleTimeout, bytes written do not count
// as activity: they may be a farewell. So endWrite does not report them. For other limits they
// wouldn't count anyway.
func (c *Conn) onTimeout(ask func(any, *idle.TimeoutError) bool, owner any, err *idle.TimeoutError) (keep bool) {
	if err.Reason == idle.ReasonIdle {
		c.flags.Or(asking)
		defer c.flags.And(^uint32(asking))
	}
	return ask(owner, err)
}
