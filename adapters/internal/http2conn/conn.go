// Package http2conn applies limits to the streams of an HTTP/2 server's
// connections. It learns everything from the frames, so it works with any server
// that speaks HTTP/2 over a net.Conn.
//
// When a stream passes a limit, the server itself resets it. The package makes it do so by
// handing it a WINDOW_UPDATE with an increment of 0 for the stream, as if the client had sent it.
// RFC 9113, section 6.9, requires a server to answer that with a RST_STREAM for the stream, and
// nothing more. So the RST_STREAM is in order with the other frames that the server writes, the
// stream's handler fails, and data queued for the stream is dropped.
package http2conn

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// A State is the state of a connection as a whole.
type State uint8

const (
	none         State = iota // nothing has been reported yet
	KeepAlive                 // no stream is open
	Streams                   // at least one stream is open
	Header                    // a header block has begun to arrive
	ResetPending              // a stream has to be reset, but the client is still in the middle of a frame
)

// A Host knows the limits of a connection and of its streams. Its methods must
// not block, except OnTimeout.
type Host interface {
	// Enter is called when the connection's state changes. It is also called with the present
	// state when the state starts over, which happens with each request's header.
	Enter(State)

	// Opened is called when the client has opened a stream, or several.
	Opened()

	// Track starts tracking a stream, or what all streams of the connection wait for
	// together, with the hooks that [Hooks] returns. It fails if the server has ended.
	Track(c *idle.Conn, owner any, all bool) error

	// LimitsStreams reports whether a limit counts for a stream as long as it is open,
	// and not only while the client is waited for.
	LimitsStreams() bool

	// Unread reports whether the kernel has unread input for the connection.
	Unread() bool

	// Reset is called when a limit has passed for the given number of streams.
	Reset(err *idle.TimeoutError, streams int)

	// OnTimeout reports whether to keep a stream although a limit has passed. It is called only
	// if Hooks was given asks.
	OnTimeout(err *idle.TimeoutError) (keep bool)
}

// Conn is a connection that has begun to speak HTTP/2. Its server reads and
// writes it in plaintext.
//
// Ground rules:
//
//   - One goroutine of the server reads, and one at a time writes. The tracker of
//     the streams calls in on a third.
//   - On the client's side, the ledger covers the bytes that the server has been
//     given, not those that wait in the buffer. So the ledger is between two
//     frames exactly when the server is.
//   - Waits are relevant only while the reader is waiting for the client. The
//     reader brings them up to date (settle) before it waits. Meanwhile a writer
//     does so.
type Conn struct {
	net.Conn // carries plaintext
	host     Host

	writing chan struct{} // full during a write; not a Mutex, because in a test with testing/synctest the time stands still while one is awaited

	mu sync.Mutex // guards the fields below, down to injected
	ledger
	state    State
	since    uint32 // identifies the header block or request that began state; see currentState
	waiting  bool   // the reader is waiting for the client
	flushing bool   // a Write that began with a stream open is under way, so what it ends isn't written yet
	woken    bool   // wake has interrupted the reader
	ended    bool
	left     bool               // the last GOAWAY is sent, and the server gets no more input
	deadline time.Time          // the read deadline that the server has set
	resets   []uint32           // streams that the server still has to reset
	injected []byte             // what the server has not read yet of a frame of ours
	pending  bool               // the frames of Announce are to be written between two frames of the server's
	answered context.Context    // done when the client has answered Announce, c has ended, or patience is over; nil before Announce
	answer   context.CancelFunc // ends answered; nil before Announce

	// Only the reader uses these: buffer[r:w] is what the server has not read
	// yet.
	buffer []byte
	r, w   int
}

// bufferSize is room for several requests. A server reads the header and the
// payload of a frame separately, so the buffer saves it system calls.
const bufferSize = 2048

// New returns a Conn that reads from nc and writes to it. The client's connection
// preface must have been read already.
func New(nc net.Conn, host Host) *Conn {
	return &Conn{Conn: nc, host: host, writing: make(chan struct{}, 1), ledger: newLedger(), buffer: make([]byte, bufferSize)}
}

// A Secure is a Conn over TLS. It has the ConnectionState method that servers
// look for.
type Secure struct {
	*Conn
	tls *tls.Conn
}

// NewSecure is [New] for TLS.
func NewSecure(tc *tls.Conn, host Host) Secure { return Secure{New(tc, host), tc} }

// ConnectionState returns the state of the TLS connection.
func (s Secure) ConnectionState() tls.ConnectionState { return s.tls.ConnectionState() }

// Of returns the Conn in nc, which is a *Conn or a Secure. It returns nil if nc
// is neither.
func Of(nc net.Conn) *Conn {
	switch c := nc.(type) {
	case *Conn:
		return c
	case Secure:
		return c.Conn
	}
	return nil
}

// NetConn returns the connection that c wraps.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// Read reads what the client has sent, or a frame of ours for the server.
func (c *Conn) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	for {
		if n := c.deliver(b); n > 0 {
			return n, nil
		}
		into := c.buffer
		if len(b) >= len(into) {
			into = b
		}
		n, err := c.Conn.Read(into)
		n, again := c.arrived(into[:n], len(into) == len(b))
		switch {
		case n > 0 && len(into) == len(b):
			return n, nil
		case n == 0 && err == nil && !again:
			return 0, nil
		case n == 0 && err != nil && !(again && errors.Is(err, os.ErrDeadlineExceeded)):
			return 0, err
		}
	}
}

// deliver copies into b what is ready for the server, and returns the number of
// bytes. If that is 0, the reader is about to wait for the client.
func (c *Conn) deliver(b []byte) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left {
		c.r, c.w = 0, 0
		return 0
	}
	if len(c.injected) == 0 && len(c.resets) > 0 && c.atBoundary() {
		c.nextReset()
	}
	if len(c.injected) > 0 {
		n := copy(b, c.injected)
		c.injected = c.injected[n:]
		return n
	}
	if c.r < c.w {
		n := copy(b, c.buffer[c.r:c.w])
		c.r += n
		c.received(b[:n])
		return n
	}
	c.waiting = true
	c.settle()
	return 0
}

// arrived records bytes that have just been read. If given is set they are in the
// server's own memory, otherwise they are in the buffer. arrived returns how many
// they are, which is none after the last GOAWAY, and whether to read again.
func (c *Conn) arrived(b []byte, given bool) (n int, again bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = false
	if c.woken {
		c.woken, again = false, true
		c.Conn.SetReadDeadline(c.deadline)
	}
	switch {
	case c.left:
		return 0, again || len(b) > 0
	case given:
		c.received(b)
	default:
		c.r, c.w = 0, len(b)
	}
	return len(b), again
}

// received records what the client has sent and the server gets now. When a request has arrived, the limits on
// its arrival end before the server gets it, because they count whatever the server does.
func (c *Conn) received(b []byte) {
	c.receive(b)
	if c.state != Streams && !c.ended {
		if s, since := c.currentState(); s == Streams {
			c.enter(s, since)
		}
	}
	if c.pong && c.answer != nil {
		c.answer()
	}
}

// atBoundary reports whether a frame of ours may be handed to the server now: not
// inside a frame of the client's, nor inside a header block.
func (c *Conn) atBoundary() bool { return c.in.between() && !c.clientBlock.open }

// nextReset prepares the frame that makes the server reset the next stream in
// c.resets that is still open.
func (c *Conn) nextReset() {
	for len(c.resets) > 0 && len(c.injected) == 0 {
		id := c.resets[0]
		c.resets = c.resets[1:]
		if c.isOpen(id) {
			c.injected = []byte{0, 0, 4, typeWindowUpdate, 0, byte(id >> 24), byte(id >> 16), byte(id >> 8), byte(id), 0, 0, 0, 0}
		}
	}
}

// Write writes what the server sends, and frames of ours that are pending.
func (c *Conn) Write(b []byte) (int, error) {
	c.writing <- struct{}{}
	defer func() { <-c.writing }()
	c.mu.Lock()
	c.flushing = len(c.streams) > 0
	b, cut := c.outgoing(b)
	var ours []byte
	if cut > 0 {
		ours = c.announcement()
	}
	c.mu.Unlock()
	n, err := c.writeAround(b, ours, cut)
	c.mu.Lock()
	c.flushing = false
	if c.waiting {
		c.settle()
	}
	c.mu.Unlock()
	return n, err
}

// writeAround writes b, with a frame of ours at the given offset. It returns how many
// bytes of b it has written.
func (c *Conn) writeAround(b, ours []byte, at int) (int, error) {
	if len(ours) == 0 {
		return c.Conn.Write(b)
	}
	if n, err := c.Conn.Write(b[:at]); err != nil {
		return n, err
	}
	if _, err := c.Conn.Write(ours); err != nil || at == len(b) {
		return at, err
	}
	n, err := c.Conn.Write(b[at:])
	return at + n, err
}

// outgoing records what the server sends, and returns the bytes to write. They
// are b, or a copy in which each RST_STREAM that we have caused carries the code
// CANCEL. cut is the offset at which a frame of ours may be inserted, or 0 if there
// is none.
func (c *Conn) outgoing(b []byte) (_ []byte, cut int) {
	var ours []byte
	cut = c.send(b, func(at int, offset uint32, n int) {
		if ours == nil {
			ours = bytes.Clone(b)
		}
		code := [4]byte{3: codeCancel}
		copy(ours[at:at+n], code[min(offset, 4):])
	})
	if ours != nil {
		return ours, cut
	}
	return b, cut
}

// SetReadDeadline sets the server's own read deadline.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	if c.woken {
		return nil
	}
	return c.Conn.SetReadDeadline(t)
}

// SetDeadline sets the server's own deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// wake interrupts the reader if it is waiting for the client, so that it calls
// deliver again. c.mu must be held.
func (c *Conn) wake() {
	if c.waiting && !c.woken {
		c.woken = true
		c.Conn.SetReadDeadline(time.Unix(1, 0))
	}
}

// A client that has to leave gets two GOAWAY frames (RFC 9113, section 6.8). The first accepts
// all streams, so a request that is on its way is served. A PING follows it. When the client has
// answered that, it has read the GOAWAY, so the last stream is known, and the second GOAWAY names
// it.
//
// The server may send GOAWAYs of its own, and a GOAWAY must not accept more streams than the one
// before it. So ours accept no more than the server's, and are made only when they are written: a
// GOAWAY of the server's may come while they wait for the end of a frame.

// patience is how long the client may take to answer, and the last GOAWAY to be written.
const patience = time.Second

// Announce asks the client to open no more streams. It waits until the client has answered, for a
// second at most. Frames are written when the server is between two frames of its own, and never
// before its SETTINGS.
func (c *Conn) Announce() {
	c.mu.Lock()
	if c.answered == nil && !c.ended && !c.left {
		c.answered, c.answer = context.WithTimeout(context.Background(), patience)
		c.pending = true
		go c.flush()
	}
	answered := c.answered
	c.mu.Unlock()
	if answered != nil {
		<-answered.Done()
	}
}

// announcement returns the frames of Announce if they are still to be written. c.mu must be held.
func (c *Conn) announcement() []byte {
	if !c.pending {
		return nil
	}
	c.pending = false
	return append(goAwayFrame(c.goAwayLast), pingFrame()...)
}

// flush writes pending frames, unless the server is in the middle of a frame or has sent none yet.
// In these cases its next Write does so. It sets no deadline, because one
// that passed would leave half a frame, or half a record of TLS, and nothing could be
// written after that.
func (c *Conn) flush() {
	c.writing <- struct{}{}
	defer func() { <-c.writing }()
	c.mu.Lock()
	var ours []byte
	if c.mayInsert() {
		ours = c.announcement()
	}
	c.mu.Unlock()
	if len(ours) > 0 {
		c.Conn.Write(ours)
	}
}

// GoAway sends the GOAWAY that names the last stream. It is called when the connection has timed
// out: nothing is read after it, and nothing can be written once it has failed. It does nothing
// while the server is writing, in the middle of a frame, or has sent none yet.
func (c *Conn) GoAway() {
	select {
	case c.writing <- struct{}{}:
		defer func() { <-c.writing }()
	default:
		return
	}
	c.mu.Lock()
	c.left = c.mayInsert()
	var ours []byte
	if c.left {
		ours = append(c.announcement(), goAwayFrame(min(c.lastClient, c.goAwayLast))...)
	}
	c.mu.Unlock()
	if len(ours) > 0 {
		c.Conn.SetWriteDeadline(time.Now().Add(patience))
		c.Conn.Write(ours)
	}
}

// End stops tracking all streams. It is called when the server is done with c.
func (c *Conn) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.answer != nil {
		c.answer()
	}
	for i := range c.streams {
		c.streams[i].wait.close()
	}
	for _, w := range c.closedWaits {
		w.close()
	}
	c.window.close()
}
