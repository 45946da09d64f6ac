package idlenet

import (
	"errors"
	"flag"
	"net"
	"os"
	"strings"
	"testing"
	"time"

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

// connect returns both ends of a loopback connection, the server's wrapped by a
// listener. Both are closed before the test's tracker is.
func connect(t testing.TB, tracker *idle.Tracker, opts *Options) (server *Conn, client *net.TCPConn) {
	t.Helper()
	bare, client := tcpPair(t)
	server, err := wrapConn(bare, tracker, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return server, client
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
func share(t testing.TB, ln net.Listener, tracker *idle.Tracker, opts *Options) *Listener {
	t.Helper()
	var own Options
	if opts != nil {
		own = *opts
	}
	own.Tracker = tracker
	l, err := Wrap(ln, idle.Policy{}, &own)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// pipe returns both ends of a net.Pipe, the server's wrapped.
func pipe(t testing.TB, tracker *idle.Tracker, opts *Options) (server *Conn, client net.Conn) {
	t.Helper()
	bare, client := net.Pipe()
	server, err := wrapConn(bare, tracker, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close(); client.Close() })
	return server, client
}

// await runs op and returns its error and when it came.
//
//lint:ignore ST1008 the error is the result, not how it went
func await(t testing.TB, op func() error) (err error, at time.Time) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- op() }()
	select {
	case err = <-done:
		return err, time.Now()
	case <-time.After(patience):
		t.Fatalf("still waiting after %v", patience)
		return nil, time.Time{}
	}
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
