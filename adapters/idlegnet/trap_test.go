//go:build proof

package idlegnet

import (
	"context"
	"errors"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	gneterrors "github.com/panjf2000/gnet/v2/pkg/errors"
)

// The tests of this file are about gnet alone: what the adapter relies on, or
// has to work around. If one fails with a new version of gnet, look there.

// bare runs an engine with h unwrapped.
func bare(t *testing.T, h *handler, addresses []string, opts ...gnet.Option) *server {
	t.Helper()
	return start(t, h, h, addresses, opts)
}

// goroutine returns what identifies the calling goroutine.
func goroutine() string {
	b := make([]byte, 32)
	b = b[:runtime.Stack(b, false)]
	for i, c := range b[len("goroutine "):] {
		if c == ' ' {
			return string(b[:len("goroutine ")+i])
		}
	}
	return string(b)
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

// opened runs an engine and returns a connection of it, and its client's end.
func opened(t *testing.T, h *handler, opts ...gnet.Option) (*server, gnet.Conn, net.Conn) {
	t.Helper()
	conns := make(chan gnet.Conn, 1)
	h.open = func(c gnet.Conn) ([]byte, gnet.Action) { conns <- c; return nil, gnet.None }
	s := bare(t, h, tcp(), opts...)
	nc := dial(t, s.address)
	return s, receive(t, conns), nc
}

func TestGnetHasNoDeadlinesAndNoSchedule(t *testing.T) {
	_, c, _ := opened(t, &handler{})
	if err := c.SetDeadline(time.Now()); !errors.Is(err, gneterrors.ErrUnsupportedOp) {
		t.Error("SetDeadline: ", err)
	}
	if err := c.EventLoop().Schedule(context.Background(), nil, 0); !errors.Is(err, gneterrors.ErrUnsupportedOp) {
		t.Error("Schedule: ", err)
	}
}

// TestGnetClosesSynchronously: EventLoop.Close calls OnClose, with a nil error,
// before it returns, passes on the shutdown that OnClose asks for, and does
// nothing the second time.
func TestGnetClosesSynchronously(t *testing.T) {
	var errs []error
	s, c, _ := opened(t, &handler{close: func(c gnet.Conn, err error) gnet.Action {
		errs = append(errs, err)
		return gnet.Shutdown
	}})
	onLoop(t, c, func() {
		if err := c.EventLoop().Close(c); !errors.Is(err, gneterrors.ErrEngineShutdown) {
			t.Error("the shutdown became ", err)
		}
		if len(errs) != 1 || errs[0] != nil {
			t.Error("OnClose was called with ", errs)
		}
		if err := c.EventLoop().Close(c); err != nil || len(errs) != 1 {
			t.Error("closed twice: ", err, errs)
		}
	})
	s.stop(t)
}

// TestGnetWantsItsOwnConn: that is why connections are not wrapped.
func TestGnetWantsItsOwnConn(t *testing.T) {
	_, c, _ := opened(t, &handler{})
	onLoop(t, c, func() {
		defer func() {
			if recover() == nil {
				t.Error("EventLoop.Close took a wrapper")
			}
		}()
		c.EventLoop().Close(struct{ gnet.Conn }{c})
	})
}

// TestGnetLoopIsComparable: connections of one loop return the same EventLoop.
func TestGnetLoopIsComparable(t *testing.T) {
	conns := make(chan gnet.Conn, 2)
	s := bare(t, &handler{open: func(c gnet.Conn) ([]byte, gnet.Action) { conns <- c; return nil, gnet.None }},
		tcp(), gnet.WithNumEventLoop(1))
	dial(t, s.address)
	dial(t, s.address)
	if a, b := receive(t, conns), receive(t, conns); a.EventLoop() != b.EventLoop() {
		t.Error("it differs")
	}
}

// TestGnetTicksOnNoLoop: OnTick may not touch connections.
func TestGnetTicksOnNoLoop(t *testing.T) {
	ticked := make(chan string, 1)
	_, c, _ := opened(t, &handler{tick: func() (time.Duration, gnet.Action) {
		ticked <- goroutine()
		return time.Hour, gnet.None
	}}, gnet.WithTicker(true))
	onLoop(t, c, func() {
		if receive(t, ticked) == goroutine() {
			t.Error("it may, now")
		}
	})
}

// TestGnetWakes: Wake calls OnTraffic without new bytes, and with those that
// were left.
func TestGnetWakes(t *testing.T) {
	buffered := make(chan int, 10)
	_, c, nc := opened(t, &handler{traffic: func(c gnet.Conn) gnet.Action {
		buffered <- c.InboundBuffered()
		return gnet.None
	}})
	c.Wake(nil)
	if n := receive(t, buffered); n != 0 {
		t.Errorf("%d bytes from nowhere", n)
	}
	nc.Write([]byte("abc"))
	receive(t, buffered)
	c.Wake(nil)
	if n := receive(t, buffered); n != 3 {
		t.Errorf("%d bytes were left, not 3", n)
	}
}

// TestGnetRunsItsQueueUntilItIsEmpty: so that nothing may post itself again.
func TestGnetRunsItsQueueUntilItIsEmpty(t *testing.T) {
	_, c, nc := opened(t, &handler{})
	const times = 1000
	ran := make(chan int, 1)
	var again func(n int)
	begun, read := make(chan struct{}), make(chan struct{})
	again = func(n int) {
		if n == 0 {
			close(begun)
			<-read
		}
		if n == times {
			ran <- n
			return
		}
		c.EventLoop().Execute(context.Background(), gnet.RunnableFunc(func(context.Context) error { again(n + 1); return nil }))
	}
	c.EventLoop().Execute(context.Background(), gnet.RunnableFunc(func(context.Context) error { again(0); return nil }))
	receive(t, begun)
	nc.Write([]byte("x")) // waits for the queue
	close(read)
	receive(t, ran)
}

// TestGnetShutsDownInThisOrder: OnShutdown comes while loops still run, and
// OnClose after it.
func TestGnetShutsDownInThisOrder(t *testing.T) {
	var l log
	s, c, _ := opened(t, &handler{
		shutdown: func(gnet.Engine) { l.add("shutdown") },
		close:    func(gnet.Conn, error) gnet.Action { l.add("close"); return gnet.None },
	})
	s.stop(t)
	if l.String() != "shutdown close" {
		t.Error("they came in the order ", l.String())
	}
	err := c.EventLoop().Execute(context.Background(), gnet.RunnableFunc(func(context.Context) error { return nil }))
	if !errors.Is(err, gneterrors.ErrEngineInShutdown) {
		t.Error("Execute after the end: ", err)
	}
}

// TestGnetBootFailsQuietly: Run returns nil, and OnShutdown is not called.
func TestGnetBootFailsQuietly(t *testing.T) {
	s := bare(t, &handler{
		boot:     func(gnet.Engine) gnet.Action { return gnet.Shutdown },
		shutdown: func(gnet.Engine) { t.Error("OnShutdown was called") },
	}, tcp())
	s.await(t)
}

// TestGnetClientIgnoresBoot: a client starts though OnBoot returns Shutdown,
// and can be told by its engine, which is not valid.
func TestGnetClientIgnoresBoot(t *testing.T) {
	opened := make(chan struct{})
	client, err := gnet.NewClient(&handler{
		boot: func(e gnet.Engine) gnet.Action {
			if e.Validate() == nil {
				t.Error("the engine of a client is valid")
			}
			return gnet.Shutdown
		},
		open: func(gnet.Conn) ([]byte, gnet.Action) { close(opened); return nil, gnet.None },
	}, gnet.WithLogger(silent{}))
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	defer client.Stop()
	s := bare(t, &handler{}, tcp())
	dial(t, s.address) // so that it listens
	if _, err := client.Dial("tcp", s.address[len("tcp://"):]); err != nil {
		t.Fatal(err)
	}
	receive(t, opened)
}

// TestGnetUDP: a server's has no OnOpen, a client's has.
func TestGnetUDP(t *testing.T) {
	s := bare(t, &handler{open: func(gnet.Conn) ([]byte, gnet.Action) {
		t.Error("the server called OnOpen")
		return nil, gnet.None
	}}, []string{"udp://127.0.0.1:0"})
	exchange(t, dial(t, s.address), "x")
	opened := make(chan gnet.Conn, 1)
	client, err := gnet.NewClient(&handler{open: func(c gnet.Conn) ([]byte, gnet.Action) {
		opened <- c
		return nil, gnet.None
	}}, gnet.WithLogger(silent{}))
	if err != nil {
		t.Fatal(err)
	}
	client.Start()
	defer client.Stop()
	if _, err := client.Dial("udp", s.address[len("udp://"):]); err != nil {
		t.Fatal(err)
	}
	if _, ok := receive(t, opened).LocalAddr().(*net.UDPAddr); !ok {
		t.Error("its address does not tell that it is UDP")
	}
}
