//go:build !386 && !s390x && !msan && !asan && !idleother

package kernel

import (
	"errors"
	"net"
	"os"
	"os/signal"
	"strconv"
	"testing"
	"time"
	"unsafe"

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

// TestSize pins the memory that a stream or a queue adds to a connection.
func TestSize(t *testing.T) {
	if strconv.IntSize != 64 {
		t.Skip("it is of 64-bit systems")
	}
	for name, size := range map[string]uintptr{"stream": unsafe.Sizeof(stream{}), "queue": unsafe.Sizeof(queue{})} {
		if size > 24 {
			t.Errorf("a %s takes %d bytes, at most 24 are allowed", name, size)
		}
	}
}
