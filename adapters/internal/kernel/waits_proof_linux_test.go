//go:build proof && !386 && !s390x && !msan && !asan && !idleother

package kernel

import (
	"errors"
	"net"
	"os"
	"os/signal"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// waiterFunc is a Waiter that is a function.
type waiterFunc func(n int)

func (f waiterFunc) WriteWaits(n int) { f(n) }

// TestWaitsAreTold has a write fill the kernel's buffer, and another one find it full. Each wait is told of, with what was
// written before.
func TestWaitsAreTold(t *testing.T) {
	for _, k := range kinds(t) {
		server, _ := connect(t, k.network, k.address)
		waits := make(chan int, 2)
		q := k.wrap(server, waiterFunc(func(n int) { waits <- n }))
		if Unwrap(q) != server {
			t.Error("it hides what it was made of")
		}
		for i, moves := range []bool{true, false} {
			ended := make(chan error, 1)
			go func() {
				_, err := q.Write(make([]byte, 64<<20))
				ended <- err
			}()
			select {
			case n := <-waits:
				if n > 0 != moves {
					t.Errorf("%s: write %d says that it has moved %d bytes", k.network, i+1, n)
				}
				if r := inspect(t, server); k.network == "unix" && r.Queued < uint64(n) { // memory, which is more than bytes
					t.Errorf("%d bytes were written, and now it is %+v", n, r)
				}
			case <-time.After(patience):
				t.Fatalf("%s: write %d does not wait", k.network, i+1)
			}
			q.SetWriteDeadline(time.Unix(1, 0))
			if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error(err)
			}
			q.SetWriteDeadline(time.Time{})
			if k.network == "tcp" { // whose buffer grows meanwhile
				break
			}
		}
	}
}

// Who writes to what the peer has left gets an error, and no signal.
func TestStreamSendsNoSignal(t *testing.T) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGPIPE)
	defer signal.Stop(signals)
	server, _ := connect(t, "tcp", "127.0.0.1:0")
	server.(*net.TCPConn).CloseWrite()
	if _, err := streamOf(server).Write([]byte("x")); !errors.Is(err, unix.EPIPE) {
		t.Error(err)
	}
	select {
	case s := <-signals:
		t.Error(s)
	case <-time.After(50 * time.Millisecond):
	}
}
