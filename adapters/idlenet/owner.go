package idlenet

import "github.com/idlewheel/idlewheel/idle"

// Setup is [Options] prepared for any number of connections; see [Conn.Init].
type Setup struct {
	opts  Options
	hooks idle.Hooks
}

// NewSetup returns a Setup for opts, which may be nil.
func NewSetup(opts *Options) *Setup {
	s := &Setup{hooks: idle.Hooks{
		Examine: func(owner any, _ idle.Reason) idle.Evidence { return owner.(*Conn).examine() },
		Expire:  func(owner any, err *idle.TimeoutError) { owner.(*Conn).expire(err) },
		Reap:    func(owner any) { owner.(*Conn).reap() },
	}}
	if opts == nil {
		return s
	}
	s.opts = *opts
	if opts.Ping != nil {
		s.hooks.Ping = func(owner any) error { return s.opts.Ping(owner.(*Conn)) }
	}
	if opts.OnTimeout != nil {
		s.hooks.OnTimeout = func(owner any, err *idle.TimeoutError) bool { return owner.(*Conn).onTimeout(s.opts.OnTimeout, err) }
	}
	if opts.OnEnd != nil {
		s.hooks.OnEnd = func(owner any, err *idle.TimeoutError) { s.opts.OnEnd(owner.(*Conn), err) }
	}
	if opts.OnDrain != nil {
		s.hooks.OnDrain = func(owner any) { s.opts.OnDrain(owner.(*Conn)) }
	}
	return s
}

// expire makes all reads and writes fail by setting a deadline in the past.
// Unlike Close that cannot block. A connection without deadlines is closed at
// once.
func (c *Conn) expire(err *idle.TimeoutError) {
	c.timedOut(err)
	c.flags.Or(expired)
	if isWriteTimeout(err) {
		c.SetLinger(0) // otherwise the kernel keeps untaken data for minutes
	}
	if err := c.inner.SetDeadline(past()); err != nil {
		c.flags.Or(shut)
		go c.reap()
	}
}

// isWriteTimeout reports whether err means that the peer does not take what it is
// sent.
func isWriteTimeout(err *idle.TimeoutError) bool {
	return err.Reason == idle.ReasonWrite || err.Reason == idle.ReasonMinWriteRate
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
	c.inner.Close()
}

// onTimeout calls the user's OnTimeout. While it runs for IdleTimeout, and after
// it has returned false, bytes written do not count as activity: they may be a
// farewell. Neither sent nor examine reports them. For other limits they would
// not count anyway.
func (c *Conn) onTimeout(ask func(*Conn, *idle.TimeoutError) bool, err *idle.TimeoutError) (keep bool) {
	if err.Reason == idle.ReasonIdle {
		c.flags.Or(asking)
		defer func() {
			if keep {
				c.flags.And(^uint32(notKept))
			} else {
				c.flags.Or(notKept)
			}
			c.flags.And(^uint32(asking))
		}()
	}
	return ask(c, err)
}
