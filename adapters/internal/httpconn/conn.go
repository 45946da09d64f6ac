package httpconn

import (
	"cmp"
	"crypto/tls"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/adapters/internal/netconn"
)

// Conn is a connection of an HTTP server.
//
// Its server reports what happens, on one goroutine at a time, until the connection is hijacked or
// turns out to be HTTP/2. That goroutine owns phase, heard and prefaceLen. Any goroutine may load state.
type Conn struct {
	// These take 8 bytes, so that they share a cache line with what a Read needs
	// of the embedded Conn.

	state      atomic.Uint32 // a state and flags, see below
	phase      Phase         // the phase that HTTP/1 is in
	heard      bool          // something has arrived since the server began to wait for a request
	prefaceLen uint8         // how many bytes of HTTP/2's preface have arrived

	netconn.Conn

	listener *Listener
	extra    netconn.CopyOnWrite[extra]
	requests atomic.Uint32 // how many have arrived; in HTTP/2, how often there have been some
	told     atomic.Bool   // asked to finish
}

// extra has what few connections need.
type extra struct {
	carriesTLS bool
	secure     *tls.Conn            // writes plaintext to a connection that carries TLS; nil if unknown
	on         httplimits.Callbacks // Watch's, for a hijacked connection
	traffic    *traffic             // of an HTTP/2 connection
	late       chan struct{}        // see Late
	begun      chan struct{}        // see awaitRequest
}

// The value of Conn.state is one of these states and any of the flags.
const (
	waiting   = iota // for a request, or for the rest of its header
	request          // from the end of the header to the end of the response
	http2            // HTTP/2 with streams
	http2Idle        // HTTP/2 without a stream
	hijacked         // see Hijack and Watch
	unserved         // the server does not serve the connection yet

	closed    = 1 << 8
	limited   = 1 << 9  // the request has limits of its own (see SetLimits)
	handsOver = 1 << 10 // the server will hand the connection over (see WillHijack)
	foreign   = 1 << 11 // something has been written before the server has reported the connection
	flags     = foreign | closed | limited | handsOver
	ofRequest = limited | handsOver // the flags that end with the request
)

// transition changes the state from one to another. It reports whether the state
// was from. If the transition ends a request, so do the request's flags.
func (c *Conn) transition(from, to uint32) bool {
	for {
		was := c.state.Load()
		if was&^flags != from {
			return false
		}
		keep := uint32(flags)
		if to != request {
			keep &^= ofRequest
		}
		if c.state.CompareAndSwap(was, was&keep|to) {
			if was&^keep&limited != 0 {
				c.listener.own.await()
			}
			return true
		}
	}
}

// Read reads from the connection as described for net.Conn.
func (c *Conn) Read(b []byte) (int, error) {
	state := c.state.Load()
	// The rest of a header follows. Within TLS, what arrives before the first request may belong to the handshake.
	if state == waiting && c.heard && c.phase != Header && (c.phase != Handshake || !c.IsSecure()) {
		c.enter(Header)
	}
	n, err := c.Conn.Read(b)
	switch {
	case n <= 0:
	case state == waiting:
		c.heard = true
		if c.listener.http2 == OverAny && !c.IsSecure() && (c.phase == Handshake || c.prefaceLen > 0) {
			c.matchPreface(b[:n])
		}
	case state&^flags >= http2:
		if t := c.traffic(); t != nil {
			t.arrived.Add(int64(n))
		}
	}
	return n, err
}

// enter enters the phase p.
func (c *Conn) enter(p Phase) {
	c.phase = p
	c.Conn.Enter(c.listener.phases[p])
}

// preface is what a client of HTTP/2 sends first.
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// matchPreface records whether the first bytes of the connection are HTTP/2's preface. b is the
// latest part of them. Without TLS nothing else shows that a connection speaks HTTP/2.
func (c *Conn) matchPreface(b []byte) {
	rest := preface[c.prefaceLen:]
	n := min(len(b), len(rest))
	if string(b[:n]) == rest[:n] {
		c.prefaceLen += uint8(n)
	} else {
		c.prefaceLen = 0
	}
}

// Write writes to the connection as described for net.Conn.
func (c *Conn) Write(b []byte) (int, error) {
	if c.state.Load() == unserved {
		c.state.CompareAndSwap(unserved, unserved|foreign)
	}
	n, err := c.Conn.Write(b)
	if t := c.traffic(); t != nil {
		if sent := t.sent.Add(int64(n)); t.end.Load() == unknown {
			t.end.Store(sent)
		}
	}
	return n, err
}

// Close closes the connection.
func (c *Conn) Close() error {
	err := c.Conn.Close()
	c.state.Or(closed)
	c.wake()
	return err
}

// SetDeadline sets the user's own deadlines. fasthttp calls it only to lift them when it hands the
// connection over. So after [Conn.WillHijack] it counts as a hijack.
func (c *Conn) SetDeadline(t time.Time) error {
	if c.state.Load()&handsOver != 0 {
		c.Hijack()
	}
	return cmp.Or(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline sets the user's own read deadline. fasthttp sets one when it has read the header of a request with a body.
// Otherwise it has no function for that; see [HeaderReadSignal].
func (c *Conn) SetReadDeadline(t time.Time) error {
	if c.listener.http2 == NoHTTP2 {
		switch state := c.state.Load() &^ flags; {
		case state == request: // the handler limits the body itself
			c.ReadAhead(true)
		case state == waiting && !t.IsZero() && c.heard:
			c.HeaderRead()
			if t.Unix() >= firstSignal {
				return nil
			}
		}
	}
	return c.Conn.SetReadDeadline(t)
}

// HeaderReadSignal is the ReadTimeout that idlefasthttp returns from HeaderReceived. The server turns it into a deadline, which
// isn't set.
const (
	HeaderReadSignal = 250 * 365 * 24 * time.Hour
	firstSignal      = 8_000_000_000 // the least deadline that may be a signal, in seconds since 1970: in the year 2223
)

// ping sends an active heartbeat's ping on a hijacked connection.
func (c *Conn) ping() error {
	if x := c.extra.Load(); x != nil && x.on.Ping != nil {
		return x.on.Ping()
	}
	return nil
}
