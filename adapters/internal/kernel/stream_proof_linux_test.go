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
