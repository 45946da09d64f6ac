// Package simnet is a network in memory for tests with testing/synctest. Unlike net.Pipe it has what
// makes servers fail: buffers that fill, reads that return less than was written, half closes, and
// resets that discard what is under way.
package simnet

import (
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/kernel"
)

// A Listener accepts the connections that Dial makes.
type Listener struct {
	conns  chan net.Conn
	closed chan struct{}
	close  func()
	config Config

	mu       sync.Mutex
	rng      *rand.Rand
	dials    int
	accepted int
}

// A Config says what a network is like.
type Config struct {
	Seed   uint64 // decides where reads are split
	Buffer int    // how many bytes each direction of a connection has room for

	// LateAddr is how long RemoteAddr of an accepted connection waits for the first byte, at
	// most. Libraries for the PROXY protocol wait like this. 0 means that it doesn't wait.
	LateAddr time.Duration

	Kernel Kernel
}

// Kernel says what there is to be known about sockets.
type Kernel int

const (
	Silent  Kernel = iota // nothing, as behind a tunnel
	Partial               // what is queued, as with gVisor
	Whole                 // all that Linux tells
)

// Listen returns a Listener.
func Listen(c Config) *Listener {
	closed := make(chan struct{})
	return &Listener{conns: make(chan net.Conn), closed: closed, close: sync.OnceFunc(func() { close(closed) }),
		config: c, rng: rand.New(rand.NewPCG(c.Seed, 1))}
}

// Accept waits for a client, and returns the server's end.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case nc := <-l.conns:
		return nc, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close makes Accept and Dial fail.
func (l *Listener) Close() error { l.close(); return nil }

// Addr returns an address that says nothing.
func (l *Listener) Addr() net.Addr { return addr(0) }

// An addr is the number of a connection, by which a test knows it on the server's side.
type addr int

func (addr) Network() string  { return "tcp" }
func (a addr) String() string { return "sim:" + strconv.Itoa(int(a)) }

// Accepted returns how many connections have been accepted.
func (l *Listener) Accepted() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.accepted
}

// Dial returns the client's end of a new connection, when the server has accepted it.
func (l *Listener) Dial() (*Conn, error) {
	l.mu.Lock()
	a := newHalf(l.config.Buffer, rand.New(rand.NewPCG(l.rng.Uint64(), 2)))
	b := newHalf(l.config.Buffer, rand.New(rand.NewPCG(l.rng.Uint64(), 3)))
	l.dials++
	id := addr(l.dials)
	l.mu.Unlock()
	select {
	case l.conns <- &Conn{in: a, out: b, id: id, lateAddr: time.Now().Add(l.config.LateAddr), kernel: l.config.Kernel}:
		l.mu.Lock()
		l.accepted++
		l.mu.Unlock()
		return &Conn{in: b, out: a, id: id}, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Conn is one end of a connection.
type Conn struct {
	in, out  *half
	id       addr
	lateAddr time.Time // until when RemoteAddr may wait
	kernel   Kernel
	resets   atomic.Bool // Close discards what is under way
}

// Read reads some of what has arrived: at least a byte, and often less than there is.
func (c *Conn) Read(b []byte) (int, error) { return c.in.read(b) }

// Write waits until the other end's buffer has taken b.
func (c *Conn) Write(b []byte) (int, error) { return c.out.write(b) }

// CloseWrite has the other end read EOF after what was written.
func (c *Conn) CloseWrite() error { c.out.end(io.EOF, false); return nil }

// Close closes both directions. As with TCP, the other end may still read what was written. What it
// writes from then on is answered by a reset.
func (c *Conn) Close() error {
	if c.resets.Load() {
		c.Reset()
	} else {
		c.out.end(io.EOF, false)
		c.in.end(syscall.ECONNRESET, true)
	}
	c.in.shut(net.ErrClosed)
	return nil
}

// SetLinger has Close reset the connection if sec is 0.
func (c *Conn) SetLinger(sec int) error { c.resets.Store(sec == 0); return nil }

// Reset discards what is under way in both directions.
func (c *Conn) Reset() {
	c.out.end(syscall.ECONNRESET, true)
	c.in.end(syscall.ECONNRESET, true)
}

// LocalAddr returns the address of the connection. Both ends have the same one.
func (c *Conn) LocalAddr() net.Addr { return c.id }

// RemoteAddr returns the same address as LocalAddr. It may wait; see LateAddr of [Config].
func (c *Conn) RemoteAddr() net.Addr {
	if time.Until(c.lateAddr) > 0 {
		c.in.awaitFirst(c.lateAddr)
	}
	return c.id
}

// Report implements [kernel.Simulated]. Bytes that the other end has not read count as not
// acknowledged.
func (c *Conn) Report() (r kernel.Report) {
	if c.kernel == Silent {
		return r
	}
	c.in.mu.Lock()
	r.Unread = len(c.in.buf)
	in := c.in.written
	c.in.mu.Unlock()
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	r.Queued, r.QueuedKnown = uint64(len(c.out.buf)), true
	if c.kernel == Whole {
		r.In, r.Out = age(in), age(c.out.progress)
		r.Acked, r.AckedKnown = c.out.taken, true
		r.NotSent = r.Queued
	}
	return r
}

// age returns how long ago t was, or since the beginning of time. It is never 0.
func age(t time.Time) time.Duration { return time.Since(t) + 1 }

// Notify implements [kernel.Simulated].
func (c *Conn) Notify(w kernel.Waiter) bool {
	if c.kernel == Whole {
		c.out.waiter = w
	}
	return c.kernel == Whole
}

func (c *Conn) SetDeadline(t time.Time) error {
	c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

func (c *Conn) SetReadDeadline(t time.Time) error {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	c.in.reader.set(c.in, t)
	return nil
}

func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	c.out.writer.set(c.out, t)
	return nil
}

// A half is one direction of a connection.
type half struct {
	mu     sync.Mutex
	moved  sync.Cond
	rng    *rand.Rand
	buf    []byte
	room   int
	begun  bool  // something has been written
	ended  error // what the reader gets when buf is empty; nil while the direction is open
	broken bool  // writes fail
	closed error // what the reader gets in any case, once it has closed its own end

	reader, writer deadline

	waiter   kernel.Waiter // nil if nobody wants to know
	taken    uint64        // bytes that have been read
	written  time.Time     // when something was written last
	progress time.Time     // when something was written or read last
}

func newHalf(room int, rng *rand.Rand) *half {
	h := &half{rng: rng, room: room, written: time.Now(), progress: time.Now()}
	h.moved.L = &h.mu
	return h
}

// A deadline belongs to one end of a half.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

// set sets a deadline and wakes who waits. h.mu must be held.
func (d *deadline) set(h *half, t time.Time) {
	d.at = t
	if d.timer != nil {
		d.timer.Stop()
	}
	if wait := time.Until(t); !t.IsZero() && wait > 0 {
		d.timer = time.AfterFunc(wait, func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.moved.Broadcast()
		})
	}
	h.moved.Broadcast()
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func (h *half) read(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.closed != nil:
			return 0, h.closed
		case h.reader.passed():
			return 0, os.ErrDeadlineExceeded
		case len(h.buf) > 0 && len(b) > 0:
			n := min(len(b), len(h.buf))
			if h.rng.IntN(2) == 0 {
				n = 1 + h.rng.IntN(n)
			}
			copy(b, h.buf[:n])
			h.buf = h.buf[n:]
			h.taken, h.progress = h.taken+uint64(n), time.Now()
			h.moved.Broadcast()
			return n, nil
		case h.ended != nil:
			return 0, h.ended
		case len(b) == 0:
			return 0, nil
		}
		h.moved.Wait()
	}
}

// awaitFirst waits until something has been written, or nothing will be read, or t.
func (h *half) awaitFirst(t time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var until deadline
	until.set(h, t)
	for !h.begun && h.ended == nil && h.closed == nil && !h.reader.passed() && !until.passed() {
		h.moved.Wait()
	}
}

func (h *half) write(b []byte) (n int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for begun, told := n, false; ; {
		switch {
		case h.broken:
			return n, syscall.ECONNRESET
		case h.ended != nil:
			return n, net.ErrClosed
		case h.writer.passed():
			return n, os.ErrDeadlineExceeded
		}
		some := min(len(b)-n, h.room-len(h.buf))
		if some > 0 {
			h.buf, h.begun = append(h.buf, b[n:n+some]...), true
			n += some
			h.written = time.Now()
			h.progress = h.written
			h.moved.Broadcast()
		}
		if n == len(b) {
			return n, nil
		}
		if h.waiter != nil && !told {
			h.mu.Unlock()
			h.waiter.WriteWaits(n - begun)
			h.mu.Lock()
			begun, told = n, true
			continue // something may have changed
		}
		h.moved.Wait()
		told = false
	}
}

// end ends the direction. If discards is set, what is under way is lost and writes fail.
func (h *half) end(why error, discards bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended == nil || discards {
		h.ended = why
	}
	if discards {
		h.buf, h.broken = nil, true
	}
	h.moved.Broadcast()
}

// shut makes reads fail.
func (h *half) shut(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = err
	h.moved.Broadcast()
}
