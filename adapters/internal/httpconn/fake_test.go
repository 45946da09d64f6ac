package httpconn

import (
	"errors"
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
	deadline time.Time // for reading
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

// await calls ready until it returns true, the wire is closed, or the deadline has passed.
func (w *wire) await(deadline *time.Time, ready func() bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		change, past := w.change, make(<-chan time.Time)
		if !deadline.IsZero() {
			past = time.After(time.Until(*deadline))
		}
		switch {
		case w.closed:
			return net.ErrClosed
		case !deadline.IsZero() && !deadline.After(time.Now()):
			return os.ErrDeadlineExceeded
		case ready():
			return nil
		}
		w.mu.Unlock()
		select {
		case <-change:
		case <-past:
		}
		w.mu.Lock()
	}
}

func (w *wire) Read(b []byte) (n int, err error) {
	err = w.await(&w.deadline, func() bool {
		n = copy(b, w.input)
		w.input = w.input[n:]
		return n > 0
	})
	return n, err
}

func (w *wire) Write(b []byte) (int, error) {
	if err := w.await(&w.until, func() bool { return !w.full }); err != nil {
		return 0, err
	}
	w.alter(func() { w.written = append(w.written, b...) })
	return len(b), nil
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

func (w *wire) SetDeadline(t time.Time) error {
	w.alter(func() { w.deadline, w.until = t, t })
	return nil
}

func (w *wire) SetReadDeadline(t time.Time) error {
	w.alter(func() { w.deadline = t })
	return nil
}

func (w *wire) SetWriteDeadline(t time.Time) error {
	w.alter(func() { w.until = t })
	return nil
}

func (w *wire) LocalAddr() net.Addr  { return &net.TCPAddr{} }
func (w *wire) RemoteAddr() net.Addr { return &net.TCPAddr{} }

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
	l, c, w := accept(t, limits, OverTLS)
	c.Accepted(c)
	return l, c, w
}

// accept is accepted for a server that doesn't serve yet.
func accept(t testing.TB, limits httplimits.Timeouts, h2 HTTP2) (*Listener, *Conn, *wire) {
	t.Helper()
	ls := wires{next: make(chan *wire, 1)}
	l, err := NewListener("httpconn", ls, limits, h2)
	if err != nil {
		t.Fatal(err)
	}
	w := newWire()
	ls.next <- w
	nc, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return l, nc.(*Conn), w
}

// timeoutOf returns the timeout in err, or an empty one.
func timeoutOf(err error) *idle.TimeoutError {
	if timeout := (*idle.TimeoutError)(nil); errors.As(err, &timeout) {
		return timeout
	}
	return new(idle.TimeoutError)
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
		ended := st.Closed + st.HandedBack + st.Drained + st.Shed + st.Evicted
		for _, n := range st.TimedOut {
			ended += n
		}
		if st.Live != 0 || st.Tracked != 1 || ended != 1 || !l.isOver() {
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

// unlimited are distinct, without a limit for what was hijacked.
func unlimited() httplimits.Timeouts {
	limits := distinct()
	limits.Hijacked = idle.Policy{}
	return limits
}
