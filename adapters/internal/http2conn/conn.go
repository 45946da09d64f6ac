// Package http2conn holds the streams of an HTTP/2 server's connections to limits.
// All that it needs to know it reads off the frames, so it works with any server
// that speaks HTTP/2 over a net.Conn.
//
// A stream that has passed a limit is reset by the server itself, which is given a
// reason to: a WINDOW_UPDATE of nothing, for which a server has to reset a stream
// (RFC 9113 section 6.9) and no more. So the reset takes its place among what else
// the server writes, its handler is told, and what waits to be written is dropped.
package http2conn

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// A State is what a connection is in as a whole.
type State uint8

const (
	none       State = iota // none has been told yet
	KeepAlive               // no stream is open
	Streams                 // some are
	Header                  // a header has begun to arrive
	Unfinished              // a stream is to be reset, but first a frame of the client's has to end
)

// A Host knows the limits of a connection and of its streams. None of its methods
// may block, except OnTimeout.
type Host interface {
	// Enter is told of every change of the connection's state, and when one begins
	// anew.
	Enter(State)

	// Track begins to track a stream, with [Hooks]. What is awaited of the client is
	// what Conn is told. If streams have no limits, it fails.
	Track(c *idle.Conn, stream any) error

	// Unread reports whether the kernel has input of the connection.
	Unread() bool

	// Reset is told that streams have passed a limit, and how many.
	Reset(err *idle.TimeoutError, streams int)

	// OnTimeout is asked whether a stream is to be kept, if the hooks say so.
	OnTimeout(err *idle.TimeoutError) (keep bool)
}

// Conn is a connection that has begun to speak HTTP/2, for its server.
//
// Ground rules:
//
//   - The server has one goroutine that reads, and one at a time that writes. The
//     tracker of the streams has a third.
//   - The ledger says how far the server has been given what the client has sent,
//     and not what waits in the buffer. So it is at the boundary between two frames
//     when the server is.
//   - Whether anything is waited for matters only while the reader waits for the
//     client: it settles that before, and others do meanwhile.
type Conn struct {
	net.Conn // with plaintext
	host     Host

	writing sync.Mutex // held during a write

	mu sync.Mutex // guards what follows
	ledger
	state    State
	since    uint32 // what present has returned with it
	waiting  bool   // the reader waits for the client
	sending  bool   // what the ledger knows to be sent is being written
	woken    bool   // it is to look what there is for it
	ended    bool
	deadline time.Time // the server's own for reading
	resets   []uint32  // streams that the server is to reset
	told     []byte    // what is left of a frame of ours, for the server

	buffer      []byte
	begin, stop int // of what is in it
}

// bufferSize is enough for several requests. A server reads the header of a frame
// and its payload one after the other, so that the buffer saves it system calls.
const bufferSize = 2048

// New returns a Conn that reads from nc and writes to it. The client's preface has
// been read.
func New(nc net.Conn, host Host) *Conn {
	return &Conn{Conn: nc, host: host, ledger: newLedger(), buffer: make([]byte, bufferSize)}
}

// A Secure is a Conn over TLS.
type Secure struct {
	*Conn
	tls *tls.Conn
}

// NewSecure is [New] for TLS.
func NewSecure(tc *tls.Conn, host Host) Secure { return Secure{New(tc, host), tc} }

// ConnectionState returns what is known of TLS.
func (s Secure) ConnectionState() tls.ConnectionState { return s.tls.ConnectionState() }

// Of returns the Conn that nc is, nil if it is none.
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

// Read reads what the client sends, and sometimes a frame of ours.
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
		again := c.arrived(into[:n], len(into) == len(b))
		switch {
		case n > 0 && len(into) == len(b):
			return n, nil
		case n == 0 && err == nil:
			return 0, nil
		case n == 0 && !(again && errors.Is(err, os.ErrDeadlineExceeded)):
			return 0, err
		}
	}
}

// deliver gives the server what there is for it, into b. If that is nothing, the
// reader is about to wait.
func (c *Conn) deliver(b []byte) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.told) == 0 && len(c.resets) > 0 && c.atBoundary() {
		c.nextReset()
	}
	if len(c.told) > 0 {
		n := copy(b, c.told)
		c.told = c.told[n:]
		return n
	}
	if c.begin < c.stop {
		n := copy(b, c.buffer[c.begin:c.stop])
		c.begin += n
		c.receive(b[:n])
		return n
	}
	c.waiting = true
	c.settle()
	return 0
}

// arrived takes over what has been read, which the server is given at once, or which
// is in the buffer. It reports whether the reader has been woken up.
func (c *Conn) arrived(b []byte, given bool) (woken bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = false
	if c.woken {
		c.woken, woken = false, true
		c.Conn.SetReadDeadline(c.deadline)
	}
	if given {
		c.receive(b)
	} else {
		c.begin, c.stop = 0, len(b)
	}
	return woken
}

// atBoundary reports whether the server can be given a frame of ours.
func (c *Conn) atBoundary() bool { return c.in.between() && !c.block.open }

// nextReset has the server told to reset the next stream.
func (c *Conn) nextReset() {
	for len(c.resets) > 0 && len(c.told) == 0 {
		id := c.resets[0]
		c.resets = c.resets[1:]
		if c.isOpen(id) {
			c.told = []byte{0, 0, 4, typeWindowUpdate, 0, byte(id >> 24), byte(id >> 16), byte(id >> 8), byte(id), 0, 0, 0, 0}
		}
	}
}

// Write writes what the server sends.
func (c *Conn) Write(b []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	b = c.sends(b)
	c.sending = true
	c.mu.Unlock()
	n, err := c.Conn.Write(b)
	c.mu.Lock()
	c.sending = false
	if c.waiting {
		c.settle()
	}
	c.mu.Unlock()
	return n, err
}

// sends takes note of what the server sends, and returns what is to be sent: the
// resets that we have asked for have another code.
func (c *Conn) sends(b []byte) []byte {
	var ours []byte
	c.send(b, func(at int, offset uint32, n int) {
		if ours == nil {
			ours = bytes.Clone(b)
		}
		code := [4]byte{3: codeCancel}
		copy(ours[at:at+n], code[min(offset, 4):])
	})
	if ours != nil {
		return ours
	}
	return b
}

// SetReadDeadline sets the server's own deadline.
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

// wake has the reader look what there is for it. c.mu is held.
func (c *Conn) wake() {
	if c.waiting && !c.woken {
		c.woken = true
		c.Conn.SetReadDeadline(time.Unix(1, 0))
	}
}

// GoAway tells the client that the connection ends, unless the server is writing.
func (c *Conn) GoAway() {
	if !c.writing.TryLock() {
		return
	}
	defer c.writing.Unlock()
	c.mu.Lock()
	last, between := c.lastIn, c.out.between() && !c.answer.open
	c.mu.Unlock()
	if between {
		const patience = time.Second
		c.Conn.SetWriteDeadline(time.Now().Add(patience))
		c.Conn.Write([]byte{0, 0, 8, typeGoAway, 0, 0, 0, 0, 0, byte(last >> 24), byte(last >> 16), byte(last >> 8), byte(last), 0, 0, 0, 0})
	}
}

// End ends the tracking of all streams, when the server is done with c.
func (c *Conn) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for i := range c.streams {
		c.streams[i].wait.close()
	}
	for _, w := range c.gone {
		w.close()
	}
	c.window.close()
}
