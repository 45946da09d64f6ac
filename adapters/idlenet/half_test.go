package idlenet

import (
	"errors"
	"io"
	"net"
	"reflect"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/netconn"
	"github.com/idlewheel/idlewheel/idle"
)

func TestCloseWriteLeavesReadingAsItWas(t *testing.T) {
	t.Parallel()
	server, client := connect(t, newTracker(t, idle.Policy{IdleTimeout: time.Minute}), nil)
	if err := server.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if err := read1(client); err != io.EOF {
		t.Errorf("the client got %v, want EOF", err)
	}
	client.Write([]byte("x"))
	if err := read1(server); err != nil {
		t.Error(err)
	}
}

func TestSocketOptionsReachTheSocket(t *testing.T) {
	t.Parallel()
	server, client := connect(t, newTracker(t, idle.Policy{IdleTimeout: time.Minute}), nil)
	for name, err := range map[string]error{
		"SetNoDelay":         server.SetNoDelay(false),
		"SetKeepAlive":       server.SetKeepAlive(true),
		"SetKeepAlivePeriod": server.SetKeepAlivePeriod(time.Minute),
		"SetKeepAliveConfig": server.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true}),
		"SetLinger":          server.SetLinger(0),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	server.Close() // with a linger of 0 it resets
	if err := read1(client); err == nil || err == io.EOF {
		t.Errorf("the client got %v, want a reset", err)
	}
	if addr, ok := server.RemoteAddr().(*net.TCPAddr); !ok || addr.String() != client.LocalAddr().String() {
		t.Errorf("RemoteAddr is %v, a %T", server.RemoteAddr(), server.RemoteAddr())
	}
}

func TestWhatThePipeHasNotIsUnsupported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, _ := pipe(t, newTracker(t, idle.Policy{IdleTimeout: time.Minute}), nil)
		for name, err := range map[string]error{
			"CloseRead": server.CloseRead(), "CloseWrite": server.CloseWrite(),
			"SetNoDelay": server.SetNoDelay(true), "SetLinger": server.SetLinger(0),
			"SetKeepAlive": server.SetKeepAlive(true), "SetKeepAlivePeriod": server.SetKeepAlivePeriod(1),
			"SetKeepAliveConfig": server.SetKeepAliveConfig(net.KeepAliveConfig{}),
		} {
			if !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestZeroLengthReadsAndWritesAreNoActivity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 100 * time.Millisecond
		bare, client := net.Pipe()
		defer client.Close()
		server, err := wrapConn(emptyOK{bare}, newTracker(t, idle.Policy{IdleTimeout: limit}), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		start := time.Now()
		for server.Timeout() == nil && time.Since(start) < 10*limit {
			server.Read(nil)
			server.Write(nil)
			time.Sleep(limit / 10)
		}
		if took := time.Since(start); took > 2*limit {
			t.Errorf("timed out after %v", took)
		}
	})
}

// emptyOK does nothing for an empty slice, as a socket does, and a pipe not.
type emptyOK struct{ net.Conn }

func (c emptyOK) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	return c.Conn.Read(b)
}

func (c emptyOK) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	return c.Conn.Write(b)
}

// A brokenSocket has a SyscallConn that fails.
type brokenSocket struct{ net.Conn }

func (brokenSocket) SyscallConn() (syscall.RawConn, error) { return nil, errors.ErrUnsupported }

// TestSyscallConn: what WrapConn returns is a syscall.Conn where that works, and only
// there. Pools of clients discard a connection whose SyscallConn fails. It copies as a Conn.
func TestSyscallConn(t *testing.T) {
	tracker := newTracker(t, idle.Policy{IdleTimeout: time.Minute})
	server, _ := tcpPair(t)
	a, b := net.Pipe()
	for name, c := range map[string]struct {
		net.Conn
		want bool
	}{
		"a socket": {server, true}, "a pipe": {a, false}, "what has a broken socket": {brokenSocket{b}, false},
	} {
		nc, err := WrapConn(c.Conn, tracker, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		sc, is := nc.(syscall.Conn)
		if is != c.want {
			t.Errorf("over %s it is a syscall.Conn: %v", name, is)
		}
		if is {
			raw, err := sc.SyscallConn()
			if err != nil || reflect.TypeOf(raw).PkgPath() != reflect.TypeFor[netconn.Conn]().PkgPath() { // package os would know what it hides
				t.Errorf("over %s SyscallConn returns a %T, and %v", name, raw, err)
			}
		}
		if conn := Unwrap(nc); conn == nil || conn.NetConn() != c.Conn {
			t.Errorf("over %s From does not find the Conn", name)
		}
		if connIn(nc) != Unwrap(nc).conn() {
			t.Errorf("over %s copies do not find the Conn", name)
		}
		if _, err := WrapConn(nc, tracker, nil); err != ErrWrapped {
			t.Errorf("over %s it can be wrapped twice: %v", name, err)
		}
	}
}
