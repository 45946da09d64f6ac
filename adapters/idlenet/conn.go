package idlenet

import (
	"io"
	"net"
	"syscall"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/netconn"
	"github.com/idlewheel/idlewheel/idle"
)

// Conn is a net.Conn with timeouts. As with every net.Conn, several goroutines
// may call its methods at once. Deadlines that the user sets keep their meaning;
// the limits of the policy apply in addition.
type Conn struct{ hidden }

type hidden = netconn.Hidden // under a name that is not exported

func (c *Conn) conn() *netconn.Conn {
	if c == nil {
		panic("idlenet: a nil *Conn; did Unwrap find none, or WrapConn return an error?")
	}
	return (*netconn.Conn)(&c.hidden)
}

// Read reads from the connection as described for net.Conn.
func (c *Conn) Read(b []byte) (int, error) { return c.conn().Read(b) }

// Write writes to the connection as described for net.Conn.
func (c *Conn) Write(b []byte) (int, error) { return c.conn().Write(b) }

// Close closes the connection and ends its tracking. It returns nil if the
// connection has already been closed because it had timed out.
func (c *Conn) Close() error { return c.conn().Close() }

// Timeout returns the limit that the connection has passed, or nil if it has not timed out.
// errors.As finds the same error in the errors of Read and Write.
func (c *Conn) Timeout() *idle.TimeoutError { return c.conn().Timeout() }

// Enter puts the connection in phase p, which must be of the connection's
// tracker; see [idle.Conn.Enter]. It panics if p is nil or of another tracker, or
// if p pings and Options.Ping is nil.
func (c *Conn) Enter(p *idle.Phase) { c.conn().Enter(p) }

// Use records that the connection is used, such as by a message of a user. It is for policies with ExplicitUse;
// without that, every byte counts as use.
func (c *Conn) Use() { c.conn().Use() }

// Beat records a beat of the peer. It is for policies with a passive Heartbeat. It isn't use of the connection, but
// the bytes of the beat are, unless the policy has ExplicitUse.
func (c *Conn) Beat() { c.conn().Beat() }

// End ends the connection for a cause that the caller names, which [idle.TimeoutError] contains;
// see [idle.Conn.End].
func (c *Conn) End(cause string) { c.conn().End(cause) }

// Idle returns how long ago the connection was last used; see [idle.Conn.Idle]. The result may be
// up to two ticks too short. Bytes in the kernel's buffer don't count until they are read.
func (c *Conn) Idle() time.Duration { return c.conn().Idle() }

// Age returns how long the connection has been tracked; see [idle.Conn.Age].
func (c *Conn) Age() time.Duration { return c.conn().Age() }

// LocalAddr returns the local address.
func (c *Conn) LocalAddr() net.Addr { return c.conn().LocalAddr() }

// RemoteAddr returns the address that the wrapped connection reports. Unless that's a
// *net.TCPConn or *net.UnixConn, it is asked once, and may block.
func (c *Conn) RemoteAddr() net.Addr { return c.conn().RemoteAddr() }

// KnownAddr returns the peer's address if it's known without waiting. Otherwise it returns nil,
// and a goroutine waits for the address. KnownAddr is for functions that must not block, such as
// Label of [idle.Options].
func (c *Conn) KnownAddr() net.Addr { return c.conn().KnownAddr() }

// SetDeadline sets the user's own read and write deadlines.
func (c *Conn) SetDeadline(t time.Time) error { return c.conn().SetDeadline(t) }

// SetReadDeadline sets the user's own read deadline.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.conn().SetReadDeadline(t) }

// SetWriteDeadline sets the user's own write deadline.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.conn().SetWriteDeadline(t) }

// ReadFrom copies from r until EOF. It uses sendfile for a regular file, and
// splice for a TCP or Unix connection, wrapped or not, where *net.TCPConn would.
func (c *Conn) ReadFrom(r io.Reader) (int64, error) { return c.conn().ReadFrom(r) }

// WriteTo copies to w until EOF. If w is a TCP connection, wrapped or not, it
// uses splice where *net.TCPConn would.
func (c *Conn) WriteTo(w io.Writer) (int64, error) { return c.conn().WriteTo(w) }

// NetConn returns the connection that c wraps. Reads and writes on it don't count as activity.
func (c *Conn) NetConn() net.Conn { return c.conn().NetConn() }

// CloseRead shuts down the reading side; see CloseRead of *net.TCPConn. Like the
// methods below, it fails with errors.ErrUnsupported if the wrapped connection
// has no such method.
func (c *Conn) CloseRead() error { return c.conn().CloseRead() }

// CloseWrite shuts down the writing side; see CloseWrite of *net.TCPConn.
func (c *Conn) CloseWrite() error { return c.conn().CloseWrite() }

// SetLinger sets what Close does with unsent data; see SetLinger of *net.TCPConn.
func (c *Conn) SetLinger(sec int) error { return c.conn().SetLinger(sec) }

// SetNoDelay switches Nagle's algorithm off or on; see SetNoDelay of
// *net.TCPConn.
func (c *Conn) SetNoDelay(noDelay bool) error { return c.conn().SetNoDelay(noDelay) }

// SetKeepAlive switches the kernel's keepalive on or off; see SetKeepAlive of
// *net.TCPConn.
func (c *Conn) SetKeepAlive(on bool) error { return c.conn().SetKeepAlive(on) }

// SetKeepAlivePeriod sets the period of the kernel's keepalive; see
// SetKeepAlivePeriod of *net.TCPConn.
func (c *Conn) SetKeepAlivePeriod(d time.Duration) error { return c.conn().SetKeepAlivePeriod(d) }

// SetKeepAliveConfig configures the kernel's keepalive; see SetKeepAliveConfig of
// *net.TCPConn.
func (c *Conn) SetKeepAliveConfig(config net.KeepAliveConfig) error {
	return c.conn().SetKeepAliveConfig(config)
}

// A socketConn is a Conn whose connection is a syscall.Conn. It is a type of its own
// because callers take the method as a promise: go-redis and others discard a
// connection whose SyscallConn fails.
type socketConn struct{ *Conn }

// SyscallConn implements syscall.Conn.
func (c socketConn) SyscallConn() (syscall.RawConn, error) { return c.conn().RawConn() }

// connIn returns the connection in v if v is a Conn, and nil otherwise. Unlike Unwrap, it doesn't
// look into wrappers, which may read and write in their own way.
func connIn(v any) *netconn.Conn {
	switch c := v.(type) {
	case *Conn:
		return c.conn()
	case socketConn:
		return c.conn()
	}
	return nil
}

// setup is Options for any number of connections.
type setup struct {
	netconn.Setup
	opts Options
}

func newSetup(opts *Options) *setup {
	var o Options
	if opts != nil {
		o = *opts
	}
	var h idle.Hooks
	if o.Ping != nil {
		h.Ping = func(owner any) error { return o.Ping(owner.(*Conn)) }
	}
	if o.OnTimeout != nil {
		h.OnTimeout = func(owner any, err *idle.TimeoutError) bool { return o.OnTimeout(owner.(*Conn), err) }
	}
	if o.OnEnd != nil {
		h.OnEnd = func(owner any, err *idle.TimeoutError) { o.OnEnd(owner.(*Conn), err) }
	}
	if o.OnDrain != nil {
		h.OnDrain = func(owner any) { o.OnDrain(owner.(*Conn)) }
	}
	return &setup{*netconn.NewSetup(h, connIn), o}
}
