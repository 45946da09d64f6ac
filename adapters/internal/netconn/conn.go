package netconn

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// Conn is a net.Conn with timeouts. As with every net.Conn, several goroutines
// may call its methods at once. Deadlines that the user sets keep their meaning;
// the limits of the policy apply in addition.
type Conn struct {
	// Fields that Reads and Writes use come first, up to the flows in track, so
	// that they touch few cache lines. In a server under load, none of these is
	// in the cache when the next request arrives.

	inner net.Conn // a named field, as promoted methods would bypass track
	flags atomic.Uint32

	// Each lock admits one goroutine at a time to a direction. So reports on a direction do not
	// overlap. It makes no goroutine wait longer, because package net has such locks too.
	reading, writing lock

	total            uint32        // how many bytes have been written, modulo 2³²; guarded by writing
	written, drained atomic.Uint32 // total, and how much of it had left the kernel; see write.go
	userDeadlines    deadlines     // which deadlines the user has set

	track idle.Conn
	setup *Setup
	extra CopyOnWrite[extra]
}

// Flags for uncommon states. They share one word, so that the common case is a
// single load.
const (
	asking    = 1 << iota // OnTimeout is running for IdleTimeout
	over                  // reads fail: Expire, Close or LetWrite has been called
	closed                // the inner connection is closed, or being closed
	readAhead             // see ReadAhead
	notifies              // inner reports when a write has to wait
	counts                // the kernel reports how many bytes are queued
	sampled               // drained is valid
	advanced              // the peer of a Unix socket has had its step in advance
)

// Read reads from the connection as described for net.Conn.
func (c *Conn) Read(b []byte) (n int, err error) {
	c.lock(&c.reading)
	c.beginRead()
	n, err = c.inner.Read(b)
	if !c.received(n, err) {
		n, err = c.discard(err)
	}
	c.unlock(&c.reading)
	return n, c.explain("read", err)
}

// beginRead reports that a read begins. c.reading must be held.
func (c *Conn) beginRead() {
	m := c.flags.Load()
	if m&readAhead != 0 {
		return
	}
	c.track.AwaitRead()
	if c.flags.Load()&readAhead != 0 { // ReadAhead ran after the first load
		c.track.PauseRead()
	}
}

// received reports the result of a read. It returns false if the connection has timed
// out before, so that the read must not return any bytes: see [idle.Conn.Deliver]. c.reading
// must be held.
func (c *Conn) received(n int, err error) (deliver bool) {
	if n > 0 {
		c.track.Received(n)
	} else if c.flags.Load()&readAhead == 0 && isDeadline(err) {
		return true // the wait goes on; see idle.Conn.AwaitRead
	}
	c.track.PauseRead()
	return c.track.Deliver()
}

// discard continues a read after a timeout, whose last result was err. It discards input
// until the connection is closed, LetWrite is called, or its user's own deadline has passed. The peer may have closed it
// in reply to what OnEnd wrote. If that read failed at once, the caller might close the connection under OnEnd.
func (c *Conn) discard(err error) (int, error) {
	for err == nil {
		_, err = c.inner.Read(make([]byte, 512))
	}
	if errors.Is(err, io.EOF) {
		c.awaitOver()
	}
	return 0, err
}

// awaitOver waits until reads fail. It and setOver see each other:
//
//	awaitOver: store the channel, then load the flag
//	setOver:   set the flag, then load the channel
func (c *Conn) awaitOver() {
	c.extra.Update(func(x *extra) {
		if x.over == nil {
			x.over = make(chan struct{})
		}
	})
	if c.flags.Load()&over == 0 {
		<-c.extra.Load().over
	}
}

// setOver sets the flag over. It reports whether it was not set.
func (c *Conn) setOver() bool {
	if c.flags.Or(over)&over != 0 {
		return false
	}
	if x := c.extra.Load(); x != nil && x.over != nil {
		close(x.over)
	}
	return true
}

// setFlag sets or clears a flag. It stores only if the flag changes, which is
// rare.
func (c *Conn) setFlag(m uint32, on bool) {
	switch has := c.flags.Load()&m != 0; {
	case on && !has:
		c.flags.Or(m)
	case has && !on:
		c.flags.And(^m)
	}
}

// Close closes the connection and ends its tracking. It returns nil if the
// connection has already been closed because it had timed out.
func (c *Conn) Close() error {
	c.track.Stop()
	c.setOver()
	err := c.closeInner()
	if c.Timeout() != nil && errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// closeInner closes the connection that was given to Init, once.
func (c *Conn) closeInner() error {
	if c.flags.Or(closed)&closed != 0 {
		return c.opError("close", net.ErrClosed)
	}
	if isWriteTimeout(c.Timeout()) { // a write has failed, and expire hasn't been called yet, because OnEnd runs
		c.setLinger(0)
	}
	return c.finish()
}

// finish is closeInner for the caller that has set the flag closed.
func (c *Conn) finish() error {
	inner := c.inner
	if x := c.extra.Load(); x != nil && x.counted != nil {
		inner = x.counted
	}
	err := inner.Close()
	if x := c.extra.Load(); x != nil && x.onClose != nil {
		x.onClose()
	}
	return err
}

// explain returns the timeout in place of err, if that isn't nil and the connection has timed out.
func (c *Conn) explain(op string, err error) error {
	if err != nil {
		err = c.explainSlow(op, err)
	}
	return err
}

// explainSlow is explain for an error. It's apart so that explain is inlined.
func (c *Conn) explainSlow(op string, err error) error {
	if timeout := c.Timeout(); timeout != nil {
		return c.opError(op, timeout)
	}
	return err
}

// opError returns err as package net does.
func (c *Conn) opError(op string, err error) error {
	e := &net.OpError{Op: op, Source: c.LocalAddr(), Addr: c.KnownAddr(), Err: err}
	if e.Addr != nil {
		e.Net = e.Addr.Network()
	}
	return e
}

// Timeout returns the limit that the connection has passed, or nil if it has not timed out.
// errors.As finds the same error in the errors of Read and Write.
func (c *Conn) Timeout() *idle.TimeoutError {
	if l := c.extra.Load(); l != nil {
		return l.timeout
	}
	return nil
}

// Enter puts the connection in phase p, which must be of the connection's
// tracker; see [idle.Conn.Enter]. It panics if p is nil or of another tracker, or
// if p pings and the Setup has no Ping.
func (c *Conn) Enter(p *idle.Phase) {
	if p == nil {
		panic("idlenet: Enter(nil); did Phase return an error?")
	}
	if m := c.flags.Load(); m&(sampled|notifies) == sampled {
		c.setFlag(sampled, false) // the next look is the first one, so what has left before buys no time in the new phase
	}
	c.track.Enter(p)
	c.setFlag(advanced, false)
}

// ReadAhead says whether the server now reads only to notice input, or its end, as early as
// possible. Then the peer can't be late, so ReadTimeout and MinReadRate don't count, even for a
// read that is waiting. After ReadAhead(false) they count from the next read.
func (c *Conn) ReadAhead(on bool) {
	c.setFlag(readAhead, on)
	if on {
		c.track.PauseRead()
	}
}

// Use records that the connection is used. It is for policies with ExplicitUse.
func (c *Conn) Use() { c.track.Use() }

// Beat records a beat of the peer. It is for policies with a passive Heartbeat.
func (c *Conn) Beat() { c.track.Beat() }

// End ends the connection for a cause that the caller names, which [idle.TimeoutError] contains;
// see [idle.Conn.End].
func (c *Conn) End(cause string) { c.track.End(cause) }

// TimedOut reports whether the connection has timed out. It may not be closed yet.
func (c *Conn) TimedOut() bool { return c.track.TimedOut() }

// Idle returns how long ago the connection was last used; see [idle.Conn.Idle]. The result may be
// up to two ticks too short. Bytes in the kernel's buffer don't count until they are read.
func (c *Conn) Idle() time.Duration { return c.track.Idle() }

// Age returns how long the connection has been tracked; see [idle.Conn.Age].
func (c *Conn) Age() time.Duration { return c.track.Age() }

// LocalAddr returns the local address.
func (c *Conn) LocalAddr() net.Addr { return c.inner.LocalAddr() }
