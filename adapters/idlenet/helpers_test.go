package idlenet

import (
	"errors"
	"flag"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/simnet"
	"github.com/idlewheel/idlewheel/idle"
)

// TestMain lets more tests run at a time than there are processors: most of them
// wait most of the time.
func TestMain(m *testing.M) {
	flag.Parse()
	flag.Set("test.parallel", "8")
	os.Exit(m.Run())
}

// patience is how long a test waits for what must happen. It says nothing of
// how late that may be; a busy machine must not fail a test.
const patience = 2 * time.Minute

// newTracker returns a tracker that is closed at the end of the test, which
// fails if connections are still tracked by then. An error means only that a callback needs longer than a second, as some do.
func newTracker(t testing.TB, p idle.Policy) *idle.Tracker {
	t.Helper()
	tracker, err := idle.New(p, &idle.Options{Tick: tick})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if live, _ := tracker.Close(); len(live) > 0 {
			t.Errorf("at the end %d connections were live", len(live))
		}
	})
	return tracker
}

// connect returns both ends of a loopback connection, the server's wrapped by a
// listener. Both are closed before the test's tracker is.
func connect(t testing.TB, tracker *idle.Tracker, opts *Options) (server *Conn, client *net.TCPConn) {
	t.Helper()
	bare, client := tcpPair(t)
	return wrapped(t, bare, tracker, opts), client
}

// tcpPair returns the ends of a loopback connection.
func tcpPair(t testing.TB) (server, client *net.TCPConn) {
	t.Helper()
	a, b := socketPair(t, "tcp", "127.0.0.1:0")
	return a.(*net.TCPConn), b.(*net.TCPConn)
}

func socketPair(t testing.TB, network, address string) (server, client net.Conn) {
	t.Helper()
	ln, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if client, err = net.Dial(network, ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close(); client.Close() })
	return server, client
}

// share wraps ln for connections of the given tracker.
func share(t testing.TB, ln net.Listener, tracker *idle.Tracker) *Listener {
	t.Helper()
	l, err := Wrap(ln, idle.Policy{}, &Options{Tracker: tracker})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// pipe returns both ends of a net.Pipe, the server's wrapped.
func pipe(t testing.TB, tracker *idle.Tracker, opts *Options) (server *Conn, client net.Conn) {
	t.Helper()
	bare, client := net.Pipe()
	t.Cleanup(func() { client.Close() })
	return wrapped(t, bare, tracker, opts), client
}

// wrapped returns nc with the timeouts of the tracker. It's closed at the end of the test.
func wrapped(t testing.TB, nc net.Conn, tracker *idle.Tracker, opts *Options) *Conn {
	t.Helper()
	c, err := wrapConn(nc, tracker, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// inBubble runs test in virtual time, with both ends of a pipe, the server's wrapped.
func inBubble(t *testing.T, p idle.Policy, opts *Options, test func(t *testing.T, server *Conn, client net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server, client := pipe(t, newTracker(t, p), opts)
		test(t, server, client)
		server.Close()
		client.Close()
		time.Sleep(time.Second) // until goroutines that use them have noticed
	})
}

// simulated returns both ends of a connection in memory, about which as much is known as about one of the kernel.
func simulated(t testing.TB, k simnet.Kernel) (server, client *simnet.Conn) {
	t.Helper()
	ln := simnet.Listen(simnet.Config{Buffer: 4 << 10, Kernel: k})
	dialed := make(chan *simnet.Conn, 1)
	go func() { c, _ := ln.Dial(); dialed <- c }()
	accepted, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	client = <-dialed
	t.Cleanup(func() { client.Close() })
	return accepted.(*simnet.Conn), client
}

// eventually waits until ok returns true.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// readAll reads from c until it fails, and returns how.
func readAll(c net.Conn) error {
	b := make([]byte, 32<<10)
	for {
		if _, err := c.Read(b); err != nil {
			return err
		}
	}
}

// read1 reads once.
func read1(c net.Conn) error {
	_, err := c.Read(make([]byte, 64))
	return err
}

// wantTimeout checks that err is in every respect a timeout for the reason.
func wantTimeout(t testing.TB, err error, reason idle.Reason) {
	t.Helper()
	var timeout *idle.TimeoutError
	if !errors.As(err, &timeout) {
		t.Fatalf("got %v (%T), want a timeout for %q", err, err, reason)
	}
	if timeout.Reason != reason {
		t.Errorf("timed out for %q (%v), want %q", timeout.Reason, timeout, reason)
	}
	//lint:ignore SA1019 libraries ask for Temporary all the same
	if ne, ok := err.(net.Error); !ok || !ne.Timeout() || ne.Temporary() {
		t.Errorf("%v (%T) is no net.Error whose Timeout is true, and whose Temporary is not", err, err)
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v is not os.ErrDeadlineExceeded", err)
	}
	if !strings.Contains(err.Error(), "i/o timeout") {
		t.Errorf("%q does not contain \"i/o timeout\"", err)
	}
}

// wantUserTimeout checks that err is the user's own deadline.
func wantUserTimeout(t testing.TB, err error) {
	t.Helper()
	var timeout *idle.TimeoutError
	if errors.As(err, &timeout) || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, want the deadline of the user", err)
	}
}

// notBefore checks that at is no earlier than limit after start.
func notBefore(t testing.TB, at, start time.Time, limit time.Duration) {
	t.Helper()
	if took := at.Sub(start); took < limit {
		t.Errorf("%v after the last activity, %v before the limit of %v", took, limit-took, limit)
	}
}

// onTime checks, in virtual time, that at is limit after start and no more than
// two ticks later.
func onTime(t testing.TB, at, start time.Time, limit time.Duration) {
	t.Helper()
	notBefore(t, at, start, limit)
	if late := at.Sub(start) - limit; late > 2*tick {
		t.Errorf("%v late, more than two ticks of %v", late, tick)
	}
}

const largeStep = 128 << 10 // of writes, see netconn

const tick = 10 * time.Millisecond // of trackers under test
