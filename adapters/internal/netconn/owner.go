package netconn

import (
	"math"

	"github.com/idlewheel/idlewheel/adapters/internal/kernel"
	"github.com/idlewheel/idlewheel/idle"
)

// A Setup has what connections of one kind share; see [Conn.Init].
type Setup struct {
	Hooks idle.Hooks
	in    func(any) *Conn

	// MaxUnsent returns n to end a connection when a write has to wait while more than n bytes
	// are in the kernel's send queue. No connection is ended if n is 0 or MaxUnsent is nil.
	MaxUnsent func() int
}

func (s *Setup) maxUnsent() int {
	if s.MaxUnsent == nil {
		return 0
	}
	return s.MaxUnsent()
}

// NewSetup returns a Setup for the callbacks Ping, OnTimeout, OnEnd and OnDrain, any of which may
// be nil. The other hooks are ours. in returns the Conn inside a reader or writer that reads and
// writes exactly like that Conn, or nil; in may be nil.
func NewSetup(callbacks idle.Hooks, in func(any) *Conn) *Setup {
	s := &Setup{Hooks: callbacks, in: in}
	s.Hooks.Probe = func(owner any, about idle.Reason) idle.SocketState { return owner.(isConn).conn().examine(about) }
	s.Hooks.Unsent = func(owner any) int { return int(min(kernel.Queued(owner.(isConn).conn().inner), math.MaxInt32)) }
	s.Hooks.Expire = func(owner any, err *idle.TimeoutError) { owner.(isConn).conn().expire(err) }
	s.Hooks.Reap = func(owner any) { owner.(isConn).conn().reap() }
	if end := callbacks.OnEnd; end != nil {
		s.Hooks.OnEnd = func(owner any, err *idle.TimeoutError) {
			c, known := owner.(isConn).conn(), *err // a copy, because OnEnd may change err
			c.timedOut(&known)
			end(owner, err)
			c.timedOut(err)
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

// expire makes all reads and writes fail by setting a deadline in the past (but see LetWrite).
// Unlike Close that cannot block. A connection without deadlines is closed at
// once.
func (c *Conn) expire(err *idle.TimeoutError) {
	if c.Timeout() == nil { // otherwise OnEnd may still be changing err
		c.timedOut(err)
	}
	c.setExpired()
	if isWriteTimeout(c.Timeout()) {
		c.SetLinger(0) // otherwise the kernel keeps unsent data for minutes
	}
	if err := c.fail(); err != nil {
		c.flags.Or(shut)
		go c.reap()
	}
}

// isWriteTimeout reports whether err means that the peer doesn't read. err is nil if the tracker
// was closed after the end was decided, but before OnEnd or Expire was called.
func isWriteTimeout(err *idle.TimeoutError) bool {
	return err != nil && (err.Cause == kernel.CauseUnsent || err.Reason == idle.ReasonWrite || err.Reason == idle.ReasonMinWriteRate)
}

// reap closes a connection that nobody has closed after it timed out. Close must
// not wait for the peer any longer, whatever the user has set with SetLinger.
func (c *Conn) reap() {
	if c.flags.Or(reaped)&reaped != 0 {
		return // expire has closed it
	}
	if !isWriteTimeout(c.Timeout()) {
		c.SetLinger(-1)
	}
	c.closeInner()
}

// onTimeout calls the user's OnTimeout. While it runs for IdleTimeout, bytes written do not count
// as activity: they may be a farewell. So sent does not report them. For other limits they
// wouldn't count anyway.
func (c *Conn) onTimeout(ask func(any, *idle.TimeoutError) bool, owner any, err *idle.TimeoutError) (keep bool) {
	if err.Reason == idle.ReasonIdle {
		c.flags.Or(asking)
		defer c.flags.And(^uint32(asking))
	}
	return ask(owner, err)
}
