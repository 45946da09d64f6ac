// Package idlegrpc applies the timeouts of HTTP/2 to a grpc.Server that serves by its own
// transport, which has keepalive but no limit for a stream (grpc/grpc-go#9276).
//
//	l, err := idlegrpc.Wrap(ln, idlegrpc.Timeouts{})
//	...
//	server := grpc.NewServer(grpc.Creds(l.Credentials(creds))) // nil for no TLS
//	err = server.Serve(l)
//
// The package is tested with grpc-go v1.85.0, and is a module of its own. Before the first release,
// a program beside a clone needs two replacements:
//
//	go mod edit -replace github.com/idlewheel/idlewheel=../idlewheel
//	go mod edit -replace github.com/idlewheel/idlewheel/adapters/idlegrpc=../idlewheel/adapters/idlegrpc
//
// Package httplimits describes the limits. The limits of HTTP/2 apply. HandlerTimeout has no effect, and
// Hijacked applies to connections that the credentials hand to another server
// ([credentials.ErrConnDispatched]). A call whose client is too slow is reset with the code CANCEL, which
// cancels the context of its handler. Other calls on the connection go on.
//
// # What is limited
//
//   - The handshake, and header blocks: HandshakeTimeout, HeaderTimeout.
//   - A message that stops halfway, or trickles: BodyTimeout, BodyRate.
//   - A client that sends nothing before the server has sent a header: the same.
//   - A client that doesn't read what the server sends: WriteTimeout, WriteRate.
//   - A connection without calls, and one that is silent: KeepAliveTimeout, StreamTimeout.
//
// Once the server has sent a header, the client may be silent between two messages.
// StreamTotal limits such a stream as a whole, and keepalive finds clients that have
// vanished. A handler whose client is silent at first has to call
// grpc.ServerStream.SendHeader before.
//
// PINGs, including those that keepalive sends, extend StreamTimeout but not KeepAliveTimeout. A
// connection without calls isn't in use, however often its client pings, so it's among the first
// that a drain or an eviction ends.
//
// # Leaving
//
// grpc.Server.GracefulStop tells all clients to leave at the same moment, and waits until their
// calls have ended. [Shutdown] tells them at an even rate, and Drain.ForceAfter ends the calls
// that are left. Clients of grpc-go lose no call: they finish the calls that have begun, and
// connect again for new ones. [LameDuck] asks clients to leave before that, while the server
// still accepts.
package idlegrpc

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/adapters/internal/http2conn"
	"github.com/idlewheel/idlewheel/adapters/internal/httpconn"
	"github.com/idlewheel/idlewheel/idle"
)

// Timeouts sets the limits of each phase of a connection. See [httplimits.Timeouts].
type Timeouts = httplimits.Timeouts

// Off disables a limit of [Timeouts].
const Off = httplimits.Off

// Listener is a net.Listener whose connections have timeouts. Its server must have the
// credentials that [Listener.Credentials] returns, or its connections are closed when
// HandshakeTimeout has passed. A listener in between may wrap the connections, as Credentials says.
type Listener struct {
	*inner
	ln net.Listener // that Wrap was given
}

type inner = httpconn.Listener // under a name that is not exported

// Wrap returns a listener that accepts from ln. ln must not carry TLS, because the credentials do
// that. It fails if a field of t is invalid, and the error names the field.
func Wrap(ln net.Listener, t Timeouts) (*Listener, error) {
	if httpconn.TLSConfig(ln) != nil {
		return nil, errTLS
	}
	inner, err := httpconn.NewListener("idlegrpc", ln, t, httpconn.OverAny)
	if err != nil {
		return nil, err
	}
	return &Listener{inner, ln}, nil
}

// Accept waits for the next connection. The server calls it.
func (l *Listener) Accept() (net.Conn, error) {
	nc, err := l.inner.Accept()
	if err != nil {
		return nil, err
	}
	c, ok := nc.(*httpconn.Conn)
	if !ok {
		nc.Close()
		return nil, errTLS
	}
	return &conn{c}, nil
}

var errTLS = errors.New("idlegrpc: the listener is one of crypto/tls; pass credentials.NewTLS to Credentials instead")

// Close closes the listener but none of its connections, whose timeouts stay in force.
func (l *Listener) Close() error { return l.inner.Close() }

// Addr returns the listener's address.
func (l *Listener) Addr() net.Addr { return l.inner.Addr() }

// SyscallConn implements [syscall.Conn], from which channelz reads the options of the listener's
// socket. It fails if the listener that was wrapped doesn't implement it.
func (l *Listener) SyscallConn() (syscall.RawConn, error) {
	sc, ok := l.ln.(syscall.Conn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return sc.SyscallConn()
}

// Stats returns the current counts. Any goroutine may call it.
func (l *Listener) Stats() httplimits.Stats { return l.inner.Stats() }

// Tracker returns the tracker of the connections.
func (l *Listener) Tracker() *idle.Tracker { return l.inner.Tracker() }

// StreamTracker returns the tracker of the calls. It counts the calls that a limit has reset.
func (l *Listener) StreamTracker() *idle.Tracker { return httpconn.StreamTracker(l.inner) }

// SetTimeouts replaces the timeouts, also for the connections that are open. If t is not
// valid, nothing is changed.
func (l *Listener) SetTimeouts(t Timeouts) error { return l.inner.SetTimeouts(t) }

// Credentials returns credentials for the server, which do the handshake of creds. A nil creds means
// insecure.NewCredentials. For connections of other listeners, the result works like creds alone.
//
// A listener between l and the server may wrap the connections. Servers with xDS have such a
// listener, and so does cmux. The wrapper has to have a method NetConn() net.Conn that returns the connection inside, or
// forward SetReadDeadline and its error, as a struct that embeds the net.Conn does. Otherwise
// HandshakeTimeout closes the connection. The reads of a wrapped connection's handshake may take
// two minutes in all, whatever grpc.ConnectionTimeout says; HandshakeTimeout applies as well.
func (l *Listener) Credentials(creds credentials.TransportCredentials) credentials.TransportCredentials {
	if creds == nil {
		creds = insecure.NewCredentials()
	}
	return &limiting{creds, l}
}

// A conn is the connection that the server has before the handshake.
type conn struct{ *httpconn.Conn }

// NetConn returns the connection below, by which its listener finds it.
func (c *conn) NetConn() net.Conn { return c.Conn }

// find returns the connection of l that raw is or wraps, or nil if there is none.
func (l *Listener) find(raw net.Conn) *httpconn.Conn {
	switch raw.(type) {
	case *conn: // not wrapped, of any listener
	case *net.TCPConn, *net.UnixConn: // of another listener
		return nil
	default:
		// Find sets a read deadline in the far future. A wrapper may keep it, and another listener's
		// connection has it instead of the one that grpc-go has set.
		defer raw.SetReadDeadline(time.Now().Add(connectionTimeout))
	}
	return httpconn.Find(l.inner, raw)
}

// connectionTimeout is the default of grpc.ConnectionTimeout.
const connectionTimeout = 2 * time.Minute

// limiting are credentials whose connections have limits.
type limiting struct {
	credentials.TransportCredentials
	l *Listener
}

func (t *limiting) Clone() credentials.TransportCredentials {
	return &limiting{t.TransportCredentials.Clone(), t.l}
}

// ServerHandshake shakes hands and reads the client's preface.
func (t *limiting) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c := t.l.find(raw)
	if c == nil {
		return t.TransportCredentials.ServerHandshake(raw)
	}
	c.Accepted(shaking{raw})
	nc, info, err := t.TransportCredentials.ServerHandshake(raw)
	if err == credentials.ErrConnDispatched { // another server has it now, and grpc-go leaves it open
		c.Hijack()
	}
	if err != nil {
		return nil, nil, err
	}
	preface := make([]byte, len(http2conn.Preface))
	if _, err := io.ReadFull(nc, preface); err != nil {
		return nil, nil, fmt.Errorf("idlegrpc: reading the client's preface: %w", err)
	}
	framed := httpconn.ReadFrames(t.l.inner, nc)
	if framed == nil {
		return nil, nil, errors.New("idlegrpc: the connection is not known to its listener any more")
	}
	http2conn.Of(framed).Messages()
	s := &served{Conn: framed, preface: preface}
	if raw, err := c.RawConn(); err == nil {
		return &socket{s, raw}, info, nil
	}
	return s, info, nil
}

// shaking makes a connection count as one within a TLS handshake until its frames are read.
// Otherwise its first bytes would be taken for a request of HTTP/1.
type shaking struct{ net.Conn }

func (shaking) ConnectionState() (s tls.ConnectionState) { return s }

// A served connection is what the server reads from: first the preface, which has been read
// already, and then frames.
type served struct {
	net.Conn
	preface []byte

	first [256]byte // what ReadOnReady waits with
	more  bool      // its last buffer was full, so more bytes have probably arrived
}

func (c *served) Read(b []byte) (int, error) {
	if len(c.preface) > 0 {
		n := copy(b, c.preface)
		c.preface = c.preface[n:]
		return n, nil
	}
	return c.Conn.Read(b)
}

// ReadOnReady is called by grpc-go, so that a connection that waits for input doesn't hold a large
// buffer. It waits with a small one, which most calls fit in, and takes one from pool when there is
// input.
func (c *served) ReadOnReady(size int, pool mem.BufferPool) (buf *[]byte, n int, err error) {
	if c.more || size <= len(c.first) {
		buf = pool.Get(size)
		n, err = c.Read(*buf)
		if c.more = n == len(*buf); n == 0 {
			pool.Put(buf)
			buf = nil
		}
		return buf, n, err
	}
	n, err = c.Read(c.first[:])
	if c.more = n == len(c.first); n > 0 {
		buf = pool.Get(size)
		copy(*buf, c.first[:n])
	}
	return buf, n, err
}

func (c *served) Close() error {
	err := c.Conn.Close()
	http2conn.Of(c.Conn).End()
	return err
}

// A socket is a served connection with a socket, whose options channelz reads.
type socket struct {
	*served
	raw syscall.RawConn
}

func (c *socket) SyscallConn() (syscall.RawConn, error) { return c.raw, nil }
