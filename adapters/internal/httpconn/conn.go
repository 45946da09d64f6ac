package httpconn

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"io"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/adapters/internal/netconn"
	"github.com/idlewheel/idlewheel/idle"
)

// Conn is a connection of an HTTP server.
//
// Ground rules:
//
//   - Events only record what is going on. A phase is entered by the next Read
//     that is about to wait in it. So on a connection that is kept alive, a request that
//     arrives whole and is answered changes no phase.
//   - Phases with a PhaseTimeout are different, because that counts whatever the server does. The
//     handshake's, the header's and noRequest are left as soon as the header has been read. The handler's
//     is entered then.
//   - Until a connection is hijacked or turns out to be HTTP/2, its server has
//     one goroutine at a time that reads or reports events. That goroutine owns
//     phase, begun, last and prefaceLen. Any goroutine may load state.
type Conn struct {
	// These take 8 bytes, so that they share a cache line with what a Read needs
	// of the embedded Conn.

	state      atomic.Uint32 // a state and flags, see below
	phase      Phase         // the phase that has been entered
	begun      uint8         // whether the next request has begun; see below
	last       byte          // the last byte that was read in HTTP/1
	prefaceLen uint8         // how many bytes of HTTP/2's preface have arrived

	netconn.Conn

	listener *Listener
	extra    atomic.Pointer[extra]
	served   atomic.Bool // its first request is there; see onDrain
	records  records     // read by the holder of the lock for reading
}

// Values of begun.
const (
	notBegun       = iota // no byte of the next request has been read
	notBegunYet           // the same, and the server has lifted its read deadline; see SetReadDeadline
	maybeBegun            // what has been read may not belong to a request: a blank line, or a KeyUpdate of TLS
	begunAlone            // its first byte arrived while the server was waiting for it
	begunPipelined        // its first byte was read together with the previous request
)

// extra holds what few connections need. It is never changed, only replaced.
type extra struct {
	secure  *tls.Conn            // writes plaintext to a connection that carries TLS; nil if unknown
	on      httplimits.Callbacks // Watch's, for a hijacked connection
	traffic *traffic             // of an HTTP/2 connection
	timeout *idle.TimeoutError   // the one that answers the request; nil if none does
	written chan struct{}        // closed when that answer is; nil with TLS, which orders its writes
}

// The value of Conn.state is one of these states and any of the flags.
const (
	awaitingHeader = iota // for a request, or for the rest of its header
	readingBody           // the header has been read; the server may read the body
	handling              // the request is read, or its handler limits reads itself; no limit applies to reads
	http2                 // HTTP/2 with streams; Reads enter no phase from here on
	http2Idle             // HTTP/2 without a stream
	hijacked              // see Hijack and Watch
	unserved              // the server does not serve the connection yet

	responded = 1 << 7 // part of the response has been written
	closed    = 1 << 8
	limited   = 1 << 9  // the request has limits of its own (see SetLimits)
	answered  = 1 << 10 // the timeout answers the request, and the server may not any more (see claim)
	answering = 1 << 11 // with answered: one more write may pass, which is the answer
	handsOver = 1 << 12 // the server will hand the connection over (see WillHijack)
	interim   = 1 << 13 // what is written is an interim response (see Interim)
	pipelined = 1 << 14 // the server may hold back responses to earlier requests (see holdsBack)
	given     = 1 << 15 // the handler has answered, and nothing of that has been written yet (see Respond)
	foreign   = 1 << 16 // something has been written before the server has reported the connection
	flags     = foreign | responded | closed | limited | answered | answering | handsOver | interim | pipelined | given
	ofRequest = responded | limited | handsOver | interim | pipelined | given // the flags that end with the request
)

// inRequest reports whether the state is one within a request of HTTP/1, from the
// end of its header on.
func inRequest(state uint32) bool {
	state &^= flags
	return state == readingBody || state == handling
}

// transition changes the state from one to another. It reports whether the state
// was from. If the transition ends a request, so do the request's flags and limits.
func (c *Conn) transition(from, to uint32) bool {
	for {
		was := c.state.Load()
		if was&^flags != from {
			return false
		}
		keep := uint32(flags)
		if !inRequest(to) {
			keep &^= ofRequest
		}
		if c.state.CompareAndSwap(was, was&keep|to) {
			if was&^keep&limited != 0 {
				c.endLimits()
			}
			if from == awaitingHeader && !c.served.Load() && to != http2Idle {
				c.firstRequest()
			}
			return true
		}
	}
}

// Read reads from the connection as described for net.Conn.
func (c *Conn) Read(b []byte) (int, error) {
	if c.state.Load() != awaitingHeader || c.phase != KeepAlive || c.begun > notBegunYet {
		return c.readSlow(b)
	}
	n, err := c.readBytes(b)
	if n > 0 { // a deadline may have ended the Read
		c.noteArrival(b[:n])
		c.last = b[n-1]
	}
	return n, err
}

// readSlow is a Read within a request, or before the first one.
func (c *Conn) readSlow(b []byte) (int, error) {
	c.enterWaitPhase()
	n, err := c.readBytes(b)
	if n > 0 {
		state := c.state.Load()
		if t := c.traffic(); t != nil {
			t.arrived.Add(int64(n))
		}
		if (c.begun != begunAlone || c.prefaceLen > 0) && state == awaitingHeader {
			c.noteArrival(b[:n])
		}
		if state&^flags < http2 {
			c.last = b[n-1]
		}
	}
	return n, err
}

// readBytes is a Read that counts for BodyRate what the application gets.
func (c *Conn) readBytes(b []byte) (int, error) {
	if c.records.overhead == 0 {
		return c.Conn.Read(b)
	}
	return c.Conn.ReadPayload(b, c.records.payload)
}

// enterWaitPhase enters the phase that a Read is about to wait in.
func (c *Conn) enterWaitPhase() {
	state := c.state.Load()
	if s := state &^ ofRequest; s <= readingBody {
		switch p := c.waitPhase(s); {
		case p == c.phase:
		case state&limited != 0:
			c.phase = p // SetLimits has entered the request's own
		default:
			c.enter(p)
		}
	}
}

// waitPhase returns the phase that a Read waits in when the connection is in the
// given state.
func (c *Conn) waitPhase(state uint32) Phase {
	switch {
	case state == readingBody && c.phase == Request:
		return Request
	case state == readingBody:
		return body
	case c.begun == begunAlone, c.begun == begunPipelined && !c.mayBeBlank():
		return Header
	case c.phase == Handshake:
		return Handshake
	case c.begun == maybeBegun && c.IsSecure(): // only one blank line is noise, but any number of records
		return noRequest
	}
	return KeepAlive
}

// enter enters the phase p.
func (c *Conn) enter(p Phase) {
	c.phase = p
	c.Conn.Enter(c.listener.phases[p])
}

// noteArrival records bytes that have arrived while the server waited for a
// request.
func (c *Conn) noteArrival(b []byte) {
	if c.handshaking() {
		return
	}
	if c.listener.http2 == OverAny && (c.phase == Handshake || c.prefaceLen > 0) {
		c.matchPreface(b)
	}
	if c.begun < begunAlone && c.isNoise(b) {
		c.begun = maybeBegun
	} else {
		c.begun = begunAlone
	}
}

// handshaking reports whether bytes that arrive between two requests may belong to a TLS handshake.
func (c *Conn) handshaking() bool { return c.phase == Handshake && c.IsSecure() }

// mayBeBlank reports whether the bytes of a pipelined request that are there may be a blank line,
// which some clients send after a body. When more arrives, the request has begun.
func (c *Conn) mayBeBlank() bool { return c.last == '\n' && !c.IsSecure() }

// isNoise reports whether b, which has arrived between two requests, doesn't begin a request. It
// may be a blank line, which some clients send after a body, or a record of TLS that isn't for
// the application; see records.begin. A blank line within TLS can't be distinguished from two bytes
// of a request. Only the first blank line counts as noise. It may come in two parts, because
// fasthttp reads one byte first if it is to reduce memory usage.
func (c *Conn) isNoise(b []byte) bool {
	if c.IsSecure() {
		return !c.records.hasRequest()
	}
	return c.begun <= notBegunYet && b[0] <= '\r' && len(bytes.Trim(b, "\r\n")) == 0 || c.last == '\r' && string(b) == "\n"
}

// awaitsRequest records that the next request may begin.
func (c *Conn) awaitsRequest() {
	c.begun = notBegun
	c.records.forget()
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
	if c.state.Load() != awaitingHeader {
		if err := c.beginResponse(b); err != nil {
			return 0, err
		}
	}
	n, err := c.Conn.Write(b)
	if t := c.traffic(); t != nil {
		if sent := t.sent.Add(int64(n)); t.end.Load() == unknown {
			t.end.Store(sent)
		}
	}
	return n, err
}

// ReadFrom copies from r until EOF, with sendfile where possible.
func (c *Conn) ReadFrom(r io.Reader) (int64, error) {
	if err := c.beginResponse(nil); err != nil {
		return 0, err
	}
	return c.Conn.ReadFrom(r)
}

// beginResponse records that b begins the response or goes on with it. After that, a
// timeout can no longer answer the request. It fails if a timeout does so already.
//
//go:noinline
func (c *Conn) beginResponse(b []byte) error {
	for {
		s := c.state.Load()
		next := s&^given | responded
		switch {
		case s&(answering|interim) == answering|interim: // of 100 Continue, before the answer
			return nil
		case s&answering != 0:
			next = s &^ answering
		case s&answered != 0:
			return c.answeredError()
		case s&^flags == unserved:
			next = s | foreign
		case s&(responded|interim) != 0 || !inRequest(s) || isInterim(b):
			return nil
		}
		if c.state.CompareAndSwap(s, next) {
			return nil
		}
	}
}

// Respond is called when the handler answers the request. net/http may read the rest of the body
// before it writes the response. From then on no timeout answers the request, unless one does so
// already, and a timeout lets the server write what it holds back.
func (c *Conn) Respond() {
	for {
		s := c.state.Load()
		if s&(responded|answered|given) != 0 || !inRequest(s) || c.state.CompareAndSwap(s, s|given) {
			return
		}
	}
}

// isInterim reports whether b, which a server writes, is an interim response such as 100 Continue
// or 103 Early Hints. Servers flush each of them. 101 is the last response of HTTP/1. Where TLS
// encrypts it, [Conn.Interim] tells instead.
func isInterim(b []byte) bool {
	const version, minor = "HTTP/1.", "1" // a client of HTTP/1.0 may get hints too
	if len(b) < len(version+minor+" 1xx") || string(b[:len(version)]) != version {
		return false
	}
	status := string(b[len(version+minor):][:len(" 1xx")])
	return status[:2] == " 1" && status[2:] != "01"
}

// Close closes the connection.
func (c *Conn) Close() error {
	err := c.Conn.Close()
	c.state.Or(closed)
	c.listener.drain.untell(c)
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

// SetReadDeadline sets the user's own read deadline. It is also how a server
// reports some events:
//
//   - While the body is read, a deadline is set by a handler that limits the body itself, or by
//     net/http when it's about to read ahead. In both cases no limit applies to reads until the
//     request has ended.
//   - Before that, fasthttp sets a deadline once it has read the header. Between two requests a
//     deadline means nothing: a server may set one to find out whether it can release its
//     buffers, as net/http does since Go 1.28.
//   - net/http lifts its deadline before it waits for a request, and again when it has
//     the first bytes of one. If it does both without a Read in between, a pipelined
//     request has begun: its bytes came with the previous one.
//   - Some deadlines are signals, see onSignal.
func (c *Conn) SetReadDeadline(t time.Time) error {
	if t.Unix() >= firstSignal && c.onSignal(t) {
		return nil
	}
	switch {
	case c.transition(readingBody, handling):
		c.ReadAhead(true)
	case !t.IsZero() && c.state.Load() == awaitingHeader && c.listener.tellsByDeadlines() &&
		(c.phase == Handshake || c.begun >= begunAlone):
		c.HeaderRead()
	case c.state.Load() == awaitingHeader && c.begun <= notBegunYet && !c.listener.tellsByDeadlines():
		switch {
		case !t.IsZero():
			c.awaitsRequest()
		case c.begun == notBegun:
			c.begun = notBegunYet
		case c.phase != Handshake: // the response to the request before has been flushed
			c.begun = begunAlone
			if c.phase == Header {
				c.phase = none
			}
		}
	}
	return c.Conn.SetReadDeadline(t)
}

// ping sends an active heartbeat's ping on a hijacked connection.
func (c *Conn) ping() error {
	if x := c.extra.Load(); x != nil && x.on.Ping != nil {
		return x.on.Ping()
	}
	return nil
}
