//go:build proof

package idlegnet

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
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
	_, err := io.ReadFull(nc, make([]byte, len(message)))
	return err
}

// await waits until something is so.
func await(t testing.TB, so func() bool) {
	t.Helper()
	for begun := time.Now(); !so(); time.Sleep(ms) {
		if time.Since(begun) > patience {
			t.Fatal("waited too long")
		}
	}
}

// onBoth runs a test on both kinds of sockets that gnet has connections of.
func onBoth(t *testing.T, test func(t *testing.T, at []string)) {
	for _, address := range []string{"tcp://127.0.0.1:0", "unix://"} {
		t.Run(address[:4], func(t *testing.T) { test(t, []string{address}) })
	}
}

// onLoop runs f on c's loop and waits for it.
func onLoop(t *testing.T, c gnet.Conn, f func()) {
	t.Helper()
	done := make(chan struct{})
	err := c.EventLoop().Execute(context.Background(), gnet.RunnableFunc(func(context.Context) error {
		defer close(done)
		f()
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	receive(t, done)
}

// listen returns a listener whose clients are connected, and hear nothing.
func listen(t *testing.T, network, address string) net.Listener {
	t.Helper()
	ln, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

// read reads n bytes.
func read(t *testing.T, nc net.Conn, n int) {
	t.Helper()
	if got, err := io.CopyN(io.Discard, nc, int64(n)); err != nil {
		t.Fatalf("%v after %d of %d bytes", err, got, n)
	}
}
