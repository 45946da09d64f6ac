//go:build proof

package idlegnet

import (
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/idle"
)

// dial connects to an address as gnet writes it. The engine may not listen yet. The
// receive buffer has a fixed size. Otherwise Linux lets it grow while the client
// reads, on some machines to 32 MiB, and it may take a whole flood.
func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	network, hostPort, _ := strings.Cut(address, "://")
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		var nc net.Conn
		if nc, err = net.Dial(network, hostPort); err == nil {
			t.Cleanup(func() { nc.Close() })
			nc.SetDeadline(time.Now().Add(patience))
			if tc, ok := nc.(*net.TCPConn); ok {
				if err := tc.SetReadBuffer(64 << 10); err != nil {
					t.Fatal(err)
				}
			}
			return nc
		}
	}
	t.Fatal(err)
	return nil
}

// exchange sends a message and waits for its echo.
func exchange(t testing.TB, nc net.Conn, message string) {
	t.Helper()
	if err := echo(nc, message); err != nil {
		t.Fatal(err)
	}
}

func echo(nc net.Conn, message string) error {
	if _, err := nc.Write([]byte(message)); err != nil {
		return err
	}
	got := make([]byte, len(message))
	for n := 0; n < len(got); {
		m, err := nc.Read(got[n:])
		if err != nil {
			return err
		}
		n += m
	}
	return nil
}

// closing is what OnClose was told.
type closing struct {
	c   gnet.Conn
	err error
	at  time.Time
}

// closings makes an OnClose that sends what it is told.
func closings() (chan closing, func(gnet.Conn, error) gnet.Action) {
	all := make(chan closing, 1<<16)
	return all, func(c gnet.Conn, err error) gnet.Action {
		all <- closing{c, err, time.Now()}
		return gnet.None
	}
}

// expectTimeout checks that a connection was closed for the reason, and not
// before the limit had passed since the given time. The latter nothing excuses.
func expectTimeout(t testing.TB, got closing, reason idle.Reason, since time.Time, limit time.Duration) {
	t.Helper()
	te, ok := got.err.(*idle.TimeoutError)
	if !ok {
		t.Fatalf("OnClose got %v (%T), not a timeout", got.err, got.err)
	}
	if te.Reason != reason || te.Limit != limit {
		t.Errorf("closed for %v, not for %v of %v", te, reason, limit)
	}
	if late, ok := t.(intime.T); ok {
		t = late.TB
	}
	if passed := got.at.Sub(since); passed < limit {
		t.Errorf("closed %v early", limit-passed)
	}
}

// log collects what happened, in order.
type log struct {
	mu    sync.Mutex
	lines []string
}

func (l *log) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, " ")
}
