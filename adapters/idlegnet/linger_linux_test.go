//go:build proof

package idlegnet

import (
	"context"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"

	"github.com/idlewheel/idlewheel/idle"
)

// TestOnEndThatClosesSomebodyElsesDescriptor closes the connection inside OnEnd, and its
// descriptor is another socket's at once. That one is left alone.
func TestOnEndThatClosesSomebodyElsesDescriptor(t *testing.T) {
	var another int
	passed := make(chan bool, 1) // the pass in which OnEnd was called is over
	h := &handler{open: func(c gnet.Conn) ([]byte, gnet.Action) { return make([]byte, flood), gnet.None }}
	s := serve(t, h, idle.Policy{WriteTimeout: 100 * time.Millisecond}, &Options{
		OnEnd: func(c gnet.Conn, _ *idle.TimeoutError) {
			fd, loop := c.Fd(), c.EventLoop()
			if err := loop.Execute(t.Context(), gnet.RunnableFunc(func(context.Context) error { passed <- true; return nil })); err != nil {
				t.Error(err)
			}
			loop.Close(c)
			for another < fd { // descriptors that are free below it come first
				socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
				if err != nil {
					t.Error(err)
					return
				}
				t.Cleanup(func() { unix.Close(socket) })
				another = socket
			}
			if another > fd {
				t.Log("another goroutine was first")
			}
		},
	}, tcp(), gnet.WithNumEventLoop(1))
	dial(t, s.address)
	receive(t, passed)
	if linger, err := unix.GetsockoptLinger(another, unix.SOL_SOCKET, unix.SO_LINGER); err != nil || linger.Onoff != 0 {
		t.Errorf("another socket lingers as the connection was told to: %+v, %v", linger, err)
	}
}
