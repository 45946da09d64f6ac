//go:build proof

package idlegnet

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/idle"
)

// TestOnEndThatClosesSomebodyElsesDescriptor closes the connection inside OnEnd, and its
// descriptor is another socket's at once. That one is left alone.
func TestOnEndThatClosesSomebodyElsesDescriptor(t *testing.T) {
	var another int
	passed := make(chan bool, 1) // the pass in which OnEnd was called is over
	s := serve(t, &handler{greeting: make([]byte, flood)}, idle.Policy{WriteTimeout: 100 * ms}, &Options{
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
	}, gnet.WithNumEventLoop(1))
	dial(t, s.address)
	receive(t, passed)
	if linger, err := unix.GetsockoptLinger(another, unix.SOL_SOCKET, unix.SO_LINGER); err != nil || linger.Onoff != 0 {
		t.Errorf("another socket lingers as the connection was told to: %+v, %v", linger, err)
	}
}

// TestSlowHandler has a handler that takes twice the limit to answer, and clients
// that send again a third of it after that. Nothing of the connection can move
// while the handler is at work, and the answer is not acknowledged at once, as the
// client does not read it at once; so it is not stale when the loop comes to look at
// it, just after the answer.
func TestSlowHandler(t *testing.T) {
	t.Parallel()
	const limit = 150 * ms
	for name, policy := range map[string]idle.Policy{"idle": {IdleTimeout: limit}, "read": {ReadTimeout: limit}} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, at []string) {
				inTime := intime.Of(t, limit/4)
				answered := make(chan struct{}, 1)
				s := serve(t, &handler{
					at:       at,
					open:     func(gnet.Conn) gnet.Action { time.Sleep(2 * limit); answered <- struct{}{}; return gnet.None },
					greeting: []byte("!"),
					traffic: func(c gnet.Conn) gnet.Action {
						c.Discard(-1)
						time.Sleep(2 * limit)
						c.Write([]byte("!"))
						answered <- struct{}{}
						return gnet.None
					},
				}, policy, nil, gnet.WithNumEventLoop(1))
				nc := dial(t, s.address)
				for range 4 {
					if tcp, ok := nc.(*net.TCPConn); ok { // the kernel keeps acknowledgements back, as it does most of the time anyway
						if raw, err := tcp.SyscallConn(); err == nil {
							raw.Control(func(fd uintptr) { unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 0) })
						}
					}
					select {
					case <-answered:
					case got := <-s.closed:
						inTime.Fatal("closed: ", got.err)
					}
					time.Sleep(limit / 3)
					s.wantOpen(inTime)
					if _, err := nc.Read(make([]byte, 1)); err != nil {
						inTime.Fatal("instead of an answer: ", err)
					}
					nc.Write([]byte("?"))
				}
			})
		})
	}
}
