package idlenet

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// Conn is a net.Conn with timeouts. Like those of every net.Conn its methods
// may be called by several goroutines at once. Deadlines set by its user keep
// their meaning, beside those of the policy.
type Conn struct {
	track idle.Conn
	inner net.Conn // held, not embedded: promoted methods would bypass track
	opts  *Options

	// Reports on a direction come from one goroutine at a time. The kernel
	// would have made the others wait anyway.
	reading, writing sync.Mutex

	ledger ledger // guarded by writing, but for what is atomic

	timeout atomic.Pointer[idle.TimeoutError]
	reaped  atomic.Bool
}

// chunk is how much is written, or copied, in one step. Between steps the
// connection's progress is recorded; within one, only the kernel sees it.
const chunk = 128 << 10

// Read reads from the connection, as net.Conn says.
func (c *Conn) Read(b []byte) (int, error) {
	if len(b) == 0 {
		n, err := c.inner.Read(b)
		return n, c.explain("read", err)
	}
	c.reading.Lock()
	defer c.reading.Unlock()
	c.track.AwaitRead()
	n, err := c.inner.Read(b)
	c.received(n, err)
	return n, c.explain("read", err)
}

// received reports what came of a read. That it no longer waits is found out
// by asking Waiting; but after EOF nothing will ever be owed.
func (c *Conn) received(n int, err error) {
	if n > 0 {
		c.track.Received(n)
	}
	if err != nil && errors.Is(err, io.EOF) {
		c.track.PauseRead()
	}
}

// Write writes to the connection, as net.Conn says.
func (c *Conn) Write(b []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.openLedger()
	written := 0
	for {
		c.track.AwaitWrite()
		n, err := c.inner.Write(b[written:min(written+chunk, len(b))])
		written += n
		if n > 0 {
			c.sent(n)
		}
		if err != nil || written >= len(b) {
			return written, c.explain("write", err)
		}
	}
}

// Close closes the connection and ends its tracking. It returns nil if the
// connection was closed meanwhile because it had timed out.
func (c *Conn) Close() error {
	c.track.Close()
	err := c.inner.Close()
	if c.reaped.Load() && errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// explain returns the timeout if that is what has made an operation fail.
func (c *Conn) explain(op string, err error) error {
	if err == nil {
		return nil
	}
	timeout := c.timeout.Load()
	if timeout == nil || !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, net.ErrClosed) {
		return err
	}
	explained := &net.OpError{Op: op, Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: timeout}
	if explained.Addr != nil {
		explained.Net = explained.Addr.Network()
	}
	return explained
}

// Timeout returns the limit that the connection has passed, nil while it has
// passed none.
func (c *Conn) Timeout() *idle.TimeoutError { return c.timeout.Load() }

// Enter puts the connection under another phase of its tracker; see
// [idle.Conn.Enter]. It panics if the phase pings and Options.Ping is nil.
func (c *Conn) Enter(p *idle.Phase) {
	if err := c.opts.allow(p.Policy()); err != nil {
		panic(err.Error())
	}
	c.keepLedger(p.Policy())
	c.track.Enter(p)
}

// keepLedger sees to it that c keeps a ledger from now on if p needs one.
func (c *Conn) keepLedger(p idle.Policy) {
	if p.MinWriteRate.BytesPerSecond > 0 {
		c.ledger.want()
	}
}

// Beat records a beat of the peer, for policies with a passive Heartbeat.
func (c *Conn) Beat() { c.track.Beat() }

// LocalAddr returns the local address.
func (c *Conn) LocalAddr() net.Addr { return c.inner.LocalAddr() }

// RemoteAddr returns the peer's address, of the type that the wrapped
// connection has it in.
func (c *Conn) RemoteAddr() net.Addr { return c.inner.RemoteAddr() }

// SetDeadline sets the user's own deadlines for reading and writing.
func (c *Conn) SetDeadline(t time.Time) error { return c.setDeadline(c.inner.SetDeadline, t) }

// SetReadDeadline sets the user's own deadline for reading.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadline(c.inner.SetReadDeadline, t) }

// SetWriteDeadline sets the user's own deadline for writing.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.setDeadline(c.inner.SetWriteDeadline, t) }

// setDeadline sets one of inner's deadlines, and sees to it that it does not
// undo the one by which Expire has ended the connection.
func (c *Conn) setDeadline(set func(time.Time) error, t time.Time) error {
	err := set(t)
	if c.timeout.Load() != nil {
		set(past())
	}
	return err
}

// past is a deadline that has passed, whatever the clock says.
func past() time.Time { return time.Unix(1, 0) }
