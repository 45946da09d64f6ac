package httpconn

import (
	"bytes"
	"crypto/tls"
	"io"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/adapters/internal/http2conn"
)

// Conn is a connection of an HTTP server.
//
// Ground rules:
//
//   - Phases are entered late: events only note what is going on, and a Read that
//     is about to wait enters the phase that it would wait in, as all its limits
//     are about waits. So a request that arrives whole, and is answered, changes
//     no phase at all. Only a limit of handlers has its phase entered in time.
//   - Until a connection is hijacked, or found to be HTTP/2, its server has one
//     goroutine at a time that reads or tells of events. That one owns phase,
//     begun, shaking and magic. Everybody may look at state.
type Conn struct {
	// These are 8 bytes, so that what a Read needs is in one cache line with them.

	state   atomic.Uint32
	phase   Phase // the one that is entered
	begun   uint8 // whether a byte of the next request is there, and since when
	shaking bool  // what arrives is a TLS handshake
	magic   uint8 // how much of the preface of HTTP/2 has arrived

	idlenet.Conn

	listener *Listener
	extra    atomic.Pointer[extra]
}

// What begun can be.
const (
	not      = iota
	arrived  // while the server waited
	buffered // with the request before
)

// extra is what few connections need.
type extra struct {
	secure *tls.Conn       // by which plain bytes are written to one that carries TLS; nil if unknown
	ping   func() error    // of a hijacked one
	frames *http2conn.Conn // of one that speaks HTTP/2; nil if its frames are not read
}

// outer returns the connection of which c is a part.
func outer(c *idlenet.Conn) *Conn {
	return (*Conn)(unsafe.Add(unsafe.Pointer(c), -int(unsafe.Offsetof(Conn{}.Conn))))
}

// States, and marks that are put on them.
const (
	waiting  = iota // for a request, or within its header
	reading         // the header is read, and the body may be
	working         // the request is read; reads are ahead of need
	http2           // from here on there is no phase to enter by a Read
	hijacked        // likewise
	refused         // or not served yet

	responded = 1 << 7 // a part of the response has been written
	closed    = 1 << 8
	released  = 1 << 9 // the listener does not count it as open
	marks     = responded | closed | released
)

// become changes the state, and reports whether it was of the given kind.
func (c *Conn) become(from, to uint32) bool {
	for {
		was := c.state.Load()
		if was&^marks != from {
			return false
		}
		if c.state.CompareAndSwap(was, was&(closed|released)|to) {
			return true
		}
	}
}

// Read reads from the connection, as net.Conn says.
func (c *Conn) Read(b []byte) (int, error) {
	if c.state.Load() != waiting || c.phase != KeepAlive || c.begun != not {
		return c.readAnyhow(b)
	}
	c.begun = arrived // or nothing does, and this was the last Read
	return c.Conn.Read(b)
}

// readAnyhow is a Read within a request, or before the first one.
func (c *Conn) readAnyhow(b []byte) (int, error) {
	c.prepare()
	n, err := c.Conn.Read(b)
	if n > 0 && (c.begun == not || c.magic > 0) && c.state.Load() == waiting {
		c.begin(b[:n])
	}
	return n, err
}

// prepare enters the phase that a Read is about to wait in.
func (c *Conn) prepare() {
	if s := c.state.Load() &^ responded; s <= reading {
		if p := c.due(s); p != c.phase {
			c.enter(p)
		}
	}
}

// due returns the phase that a read waits in.
func (c *Conn) due(state uint32) Phase {
	switch {
	case state == reading:
		return Request
	case c.begun != not:
		return Header
	case c.phase == Handshake:
		return Handshake
	}
	return KeepAlive
}

func (c *Conn) enter(p Phase) {
	c.phase = p
	c.Conn.Enter(c.listener.phases[p])
}

// begin notes what has arrived while the connection waited for a request.
func (c *Conn) begin(b []byte) {
	if c.shaking {
		return
	}
	if c.listener.http2 == HTTP2Also && (c.phase == Handshake || c.magic > 0) {
		c.match(b)
	}
	c.begun = arrived
}

// preface is how HTTP/2 begins.
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// match sees whether the first bytes of the connection, of which b are the next,
// are those of HTTP/2. Without TLS nobody else tells.
func (c *Conn) match(b []byte) {
	rest := preface[c.magic:]
	n := min(len(b), len(rest))
	if string(b[:n]) == rest[:n] {
		c.magic += uint8(n)
	} else {
		c.magic = 0
	}
}

// Write writes to the connection, as net.Conn says.
func (c *Conn) Write(b []byte) (int, error) {
	if c.state.Load() != waiting {
		c.responds(b)
	}
	return c.Conn.Write(b)
}

// ReadFrom copies from r until EOF, by sendfile if it can.
func (c *Conn) ReadFrom(r io.Reader) (int64, error) {
	c.responds(nil)
	return c.Conn.ReadFrom(r)
}

// responds notes that the response has begun, if that may matter: once it has, a
// timeout cannot be answered.
//
//go:noinline
func (c *Conn) responds(b []byte) {
	s := c.state.Load()
	if s == reading || s == working && c.listener.timeouts.HandlerTimeout > 0 {
		if !bytes.Equal(b, []byte("HTTP/1.1 100 Continue\r\n\r\n")) {
			c.become(s, s|responded)
		}
	}
}

// Close closes the connection.
func (c *Conn) Close() error {
	err := c.Conn.Close()
	c.state.Or(closed)
	c.listener.release(c)
	return err
}

// SetDeadline sets the user's own deadlines. Servers do so only as they hand the
// connection over.
func (c *Conn) SetDeadline(t time.Time) error {
	c.Hijack()
	return c.Conn.SetDeadline(t)
}

// SetReadDeadline sets the user's own deadline for reading, or is a signal.
//
// Within a request it is taken for the word that from now on the server's side
// sees to it: it is a handler's own deadline for the body, or net/http about to
// read ahead. While a header is read it is fasthttp's word that it has been.
func (c *Conn) SetReadDeadline(t time.Time) error {
	if isSignal(t) {
		c.signalled(t)
		return nil
	}
	if c.become(reading, working) {
		c.ReadAhead(true)
	} else if !t.IsZero() && c.state.Load() == waiting {
		c.HeaderRead()
	}
	return c.Conn.SetReadDeadline(t)
}

// ping implements an active heartbeat, for hijacked connections.
func (c *Conn) ping() error {
	if x := c.extra.Load(); x != nil && x.ping != nil {
		return x.ping()
	}
	return nil
}
