package httpconn

import (
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/idle"
)

// A wire is a connection without a kernel, for bubbles of virtual time: what the
// peer sends is given to it, and it takes what is written.
type wire struct {
	net.Conn // nil; what is not below is not called
	mu       sync.Mutex
	change   chan struct{} // closed when something changes
	input    []byte
	written  []byte
	closed   bool
	past     bool // a deadline for reading was set in the past
	deadline time.Time
	full     bool      // nothing that is written is taken
	until    time.Time // the deadline for writing
}

func newWire() *wire { return &wire{change: make(chan struct{})} }

// alter changes the wire and wakes who waits.
func (w *wire) alter(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	close(w.change)
	w.change = make(chan struct{})
}

// sends has the peer send b.
func (w *wire) sends(b string) { w.alter(func() { w.input = append(w.input, b...) }) }

func (w *wire) Read(b []byte) (int, error) {
	for {
		w.mu.Lock()
		change := w.change
		switch {
		case w.closed:
			w.mu.Unlock()
			return 0, net.ErrClosed
		case w.past:
			w.mu.Unlock()
			return 0, os.ErrDeadlineExceeded
		case len(w.input) > 0:
			n := copy(b, w.input)
			w.input = w.input[n:]
			w.mu.Unlock()
			return n, nil
		}
		deadline := w.deadline
		w.mu.Unlock()
		if deadline.IsZero() {
			<-change
			continue
		}
		timer := time.NewTimer(time.Until(deadline))
		select {
		case <-change:
			timer.Stop()
		case <-timer.C:
			w.set(deadline) // which is past now
		}
	}
}

func (w *wire) Write(b []byte) (int, error) {
	for {
		w.mu.Lock()
		change, full := w.change, w.full
		switch {
		case w.closed:
			w.mu.Unlock()
			return 0, net.ErrClosed
		case !w.until.IsZero() && !w.until.After(time.Now()):
			w.mu.Unlock()
			return 0, os.ErrDeadlineExceeded
		case !full:
			w.written = append(w.written, b...)
			w.mu.Unlock()
			return len(b), nil
		}
		w.mu.Unlock()
		<-change
	}
}

func (w *wire) isClosed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

func (w *wire) Close() error {
	w.alter(func() { w.closed = true })
	return nil
}

func (w *wire) set(t time.Time) error {
	w.alter(func() { w.past, w.deadline = !t.IsZero() && !t.After(time.Now()), t })
	return nil
}

func (w *wire) SetReadDeadline(t time.Time) error { return w.set(t) }
func (w *wire) LocalAddr() net.Addr               { return &net.TCPAddr{} }
func (w *wire) RemoteAddr() net.Addr              { return &net.TCPAddr{} }

func (w *wire) SetDeadline(t time.Time) error {
	w.alter(func() { w.until = t })
	return w.set(t)
}

func (w *wire) SetWriteDeadline(t time.Time) error {
	w.alter(func() { w.until = t })
	return nil
}

// wires is a listener of one wire.
type wires struct {
	net.Listener
	next chan *wire
}

func (l wires) Accept() (net.Conn, error) {
	w, ok := <-l.next
	if !ok {
		return nil, io.EOF
	}
	return w, nil
}
func (wires) Close() error { return nil }

// accepted returns a connection with the given limits, and the peer's end. Both
// its own and its listener's Close are the caller's.
func accepted(t testing.TB, limits httplimits.Timeouts) (*Listener, *Conn, *wire) {
	t.Helper()
	l, nc, w := accept(t, limits, OverTLS, func(bare net.Listener) net.Listener { return bare })
	c := nc.(*Conn)
	c.Accepted(c)
	return l, c, w
}

// accept is accepted for a server that doesn't serve yet, on what over puts on a listener.
func accept(t testing.TB, limits httplimits.Timeouts, h2 HTTP2, over func(net.Listener) net.Listener) (*Listener, net.Conn, *wire) {
	t.Helper()
	ls := wires{next: make(chan *wire, 1)}
	l, err := NewListener("httpconn", over(ls), limits, h2)
	if err != nil {
		t.Fatal(err)
	}
	w := newWire()
	ls.next <- w
	nc, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return l, nc, w
}

// inBubble runs a test in virtual time, of which the end shows that no goroutine
// is left.
func inBubble(t *testing.T, limits httplimits.Timeouts, test func(t *testing.T, l *Listener, c *Conn, w *wire)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l, c, w := accepted(t, limits)
		test(t, l, c, w)
		c.Close()
		l.Close()
		synctest.Wait()
		st := l.Stats()
		ended := st.Drained + st.Shed + st.Evicted
		for _, n := range st.TimedOut {
			ended += n
		}
		if st.Live != 0 || st.Tracked != 1 || st.Closed+ended != 1 || !l.isOver() {
			t.Errorf("the trackers have ended: %v; %+v", l.isOver(), st)
		}
	})
}

// isOver reports whether the trackers have ended.
func (l *Listener) isOver() bool {
	select {
	case <-l.tracker.Done():
		return true
	default:
		return false
	}
}

// distinct are limits by which one sees what counts.
func distinct() httplimits.Timeouts {
	off := idle.Rate{BytesPerSecond: httplimits.Off}
	return httplimits.Timeouts{HandshakeTimeout: 1 * time.Second, HeaderTimeout: 2 * time.Second, BodyTimeout: 4 * time.Second, KeepAliveTimeout: 8 * time.Second,
		StreamTimeout: 16 * time.Second, Hijacked: idle.Policy{IdleTimeout: 32 * time.Second}, BodyRate: off, WriteRate: off}
}
