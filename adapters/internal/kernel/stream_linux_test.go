//go:build !386 && !s390x && !race && !msan && !asan

package kernel

import (
	"errors"
	"net"
	"os"
	"os/signal"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A read that the scheduler does not know of neither waits in the kernel, not even
// if somebody has made the descriptor a blocking one, nor takes much at once.
func TestStreamReadsDoNotTakeLong(t *testing.T) {
	server, client := connect(t, "tcp", "127.0.0.1:0")
	control(t, server, func(fd int) {
		if err := unix.SetNonblock(fd, false); err != nil {
			t.Fatal(err)
		}
	})
	c := Stream(server)
	c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	result := make(chan error, 1)
	go func() { _, err := c.Read(make([]byte, 1)); result <- err }()
	select {
	case err := <-result:
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
	case <-time.After(patience):
		client.Close() // or the test would wait, too
		t.Fatal("it waits in the kernel")
	}
	c.SetReadDeadline(time.Time{})
	go client.Write(make([]byte, 8*gulp))
	eventually(t, "much is there", func() (much bool) {
		control(t, server, func(fd int) {
			n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
			much = err == nil && n > gulp
		})
		return much
	})
	if n, err := c.Read(make([]byte, 8*gulp)); n != gulp || err != nil {
		t.Errorf("%d bytes at once, not %d; %v", n, gulp, err)
	}
}

// Who writes to what the peer has left gets an error, and no signal.
func TestStreamSendsNoSignal(t *testing.T) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGPIPE)
	defer signal.Stop(signals)
	server, _ := connect(t, "tcp", "127.0.0.1:0")
	server.(*net.TCPConn).CloseWrite()
	if _, err := Stream(server).Write([]byte("x")); !errors.Is(err, unix.EPIPE) {
		t.Error(err)
	}
	select {
	case s := <-signals:
		t.Error(s)
	case <-time.After(50 * time.Millisecond):
	}
}

// Two cache lines, so that the allocator puts each at the beginning of one.
func TestStreamSize(t *testing.T) {
	if size, in := unsafe.Sizeof(stream{}), unsafe.Offsetof(stream{}.out); unsafe.Sizeof(uintptr(0)) == 8 && (size != 128 || in != 64) {
		t.Errorf("it takes %d bytes, the first %d of them for reading", size, in)
	}
}
