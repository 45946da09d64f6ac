package idlenet

import "github.com/idlewheel/idlewheel/idle"

// Setup is [Options] made ready for any number of connections; see [Conn.Init].
type Setup struct {
	opts  Options
	hooks idle.Hooks
}

// NewSetup returns a Setup of opts, which may be nil.
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
		s.hooks.OnTimeout = func(owner any, err *idle.TimeoutError) bool { return owner.(*Conn).ask(s.opts.OnTimeout, err) }
	}
	if opts.OnEnd != nil {
		s.hooks.OnEnd = func(owner any, err *idle.TimeoutError) {
			c := owner.(*Conn)
			c.marks.Or(ended) // from here on nothing is read
			s.opts.OnEnd(c, err)
		}
	}
	if opts.OnDrain != nil {
		s.hooks.OnDrain = func(owner any) { s.opts.OnDrain(owner.(*Conn)) }
	}
	return s
}

// expire makes all reads and writes fail, by a deadline, as that cannot block as
// Close can. A connection that takes no deadlines has to be closed at once.
func (c *Conn) expire(err *idle.TimeoutError) {
	c.timedOut(err)
	c.marks.Or(ended | expired)
	if ofWriting(err) {
		c.SetLinger(0) // or the kernel keeps what the peer does not take for minutes yet
	}
	if err := c.inner.SetDeadline(past()); err != nil {
		c.marks.Or(shut)
		go c.reap()
	}
}

// ofWriting reports whether the peer does not take what it is sent.
func ofWriting(err *idle.TimeoutError) bool {
	return err.Reason == idle.ReasonWrite || err.Reason == idle.ReasonMinWriteRate
}

// reap closes the connection that has stayed open for all that. The peer has
// had its time; closing is not to wait for it, whatever SetLinger said.
func (c *Conn) reap() {
	if c.marks.Or(reaped)&reaped != 0 {
		return // expire has done so
	}
	if !ofWriting(c.Timeout()) {
		c.SetLinger(-1)
	}
	c.inner.Close()
}

// ask asks the user. A farewell that is written meanwhile by an idle connection
// is no sign of life, whoever sees it: sent, or examine. No other limit would take
// it for one.
func (c *Conn) ask(keeps func(*Conn, *idle.TimeoutError) bool, err *idle.TimeoutError) (keep bool) {
	if err.Reason == idle.ReasonIdle {
		c.marks.Or(asking)
		defer func() {
			if keep {
				c.marks.And(^uint32(refused))
			} else {
				c.marks.Or(refused)
			}
			c.marks.And(^uint32(asking))
		}()
	}
	return keeps(c, err)
}
