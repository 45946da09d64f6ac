package idlenet

import (
	"github.com/idlewheel/idlewheel/idle"
)

// owner is a Conn as its tracker sees it. The methods are not Conn's own, so
// that its user does not see them; but what the tracker hands back at shutdown
// is a net.Conn.
type owner struct{ *Conn }

// What an owner can do for its user, if the user wants it.
type (
	keeper struct{ owner }   // asks OnTimeout
	parter struct{ c *Conn } // tells OnEnd
	ender  struct {
		owner
		parter
	}
	keeperEnder struct {
		keeper
		parter
	}
)

// owner returns what the tracker is to call.
func (c *Conn) owner() idle.Owner {
	o := owner{c}
	switch asks, tells := c.opts.OnTimeout != nil, c.opts.OnEnd != nil; {
	case asks && tells:
		return keeperEnder{keeper{o}, parter{c}}
	case asks:
		return keeper{o}
	case tells:
		return ender{o, parter{c}}
	}
	return o
}

// Part tells the user. From here on nothing is read.
func (p parter) Part(err *idle.TimeoutError) {
	p.c.marks.Or(ended)
	p.c.opts.OnEnd(p.c, err)
}

// Unwrap returns the connection, which a tracker that is closed hands back. It is not
// tracked any more.
func (o owner) Unwrap() any {
	o.marks.Or(untracked)
	return o.Conn
}

// Expire makes all reads and writes fail, by a deadline, as that cannot block as
// Close can. A connection that takes no deadlines has to be closed at once.
func (o owner) Expire(err *idle.TimeoutError) {
	o.timedOut(err)
	o.marks.Or(ended | expired)
	if ofWriting(err) {
		o.SetLinger(0) // or the kernel keeps what the peer does not take for minutes yet
	}
	if err := o.inner.SetDeadline(past()); err != nil {
		o.marks.Or(shut)
		go o.Reap()
	}
}

// ofWriting reports whether the peer does not take what it is sent.
func ofWriting(err *idle.TimeoutError) bool {
	return err.Reason == idle.ReasonWrite || err.Reason == idle.ReasonMinWriteRate
}

// Reap closes the connection that has stayed open for all that. The peer has
// had its time; closing is not to wait for it, whatever SetLinger said.
func (o owner) Reap() {
	if o.marks.Or(reaped)&reaped != 0 {
		return // Expire has done so
	}
	if !ofWriting(o.Timeout()) {
		o.SetLinger(-1)
	}
	o.inner.Close()
}

func (o owner) Ping() error { return o.opts.Ping(o.Conn) }

func (o owner) Drain() {
	if o.opts.OnDrain != nil {
		o.opts.OnDrain(o.Conn)
	}
}

// Keep asks the user. A farewell that is written meanwhile by an idle connection
// is no sign of life, whoever sees it: sent, or Probe. No other limit would take
// it for one.
func (k keeper) Keep(err *idle.TimeoutError) (keep bool) {
	if err.Reason == idle.ReasonIdle {
		k.marks.Or(asking)
		defer func() {
			if keep {
				k.marks.And(^uint32(refused))
			} else {
				k.marks.Or(refused)
			}
			k.marks.And(^uint32(asking))
		}()
	}
	return k.opts.OnTimeout(k.Conn, err)
}
