//go:build proof

package idlegnet

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	gneterrors "github.com/panjf2000/gnet/v2/pkg/errors"
)

// The tests of this file are about gnet alone: what the adapter relies on, or
// has to work around. If one fails with a new version of gnet, look there.

// bare runs an engine of one loop with h unwrapped, and returns a connection of it.
func bare(t *testing.T, h *handler) (*server, gnet.Conn) {
	t.Helper()
	s := start(t, h, h, []gnet.Option{gnet.WithNumEventLoop(1)})
	dial(t, s.address)
	return s, receive(t, s.opened)
}

func TestGnetLoops(t *testing.T) {
	s, c := bare(t, &handler{})
	if err := c.SetDeadline(time.Now()); !errors.Is(err, gneterrors.ErrUnsupportedOp) {
		t.Error("there are deadlines now: ", err)
	}
	if err := c.EventLoop().Schedule(context.Background(), nil, 0); !errors.Is(err, gneterrors.ErrUnsupportedOp) {
		t.Error("there is a schedule now: ", err)
	}
	dial(t, s.address)
	if other := receive(t, s.opened); other.EventLoop() != c.EventLoop() {
		t.Error("connections of one loop have several")
	}
	onLoop(t, c, func() {
		defer func() {
			if recover() == nil {
				t.Error("EventLoop.Close takes a wrapped connection now")
			}
		}()
		c.EventLoop().Close(struct{ gnet.Conn }{c})
	})
}

// TestGnetClosesSynchronously: EventLoop.Close calls OnClose, with a nil error,
// before it returns, passes on the shutdown that OnClose asks for, and does
// nothing the second time.
func TestGnetClosesSynchronously(t *testing.T) {
	s, c := bare(t, &handler{close: func(gnet.Conn, error) gnet.Action { return gnet.Shutdown }})
	onLoop(t, c, func() {
		if err := c.EventLoop().Close(c); !errors.Is(err, gneterrors.ErrEngineShutdown) {
			t.Error("the shutdown became ", err)
		}
		if len(s.closed) != 1 || receive(t, s.closed).err != nil {
			t.Error("OnClose was not called, or with an error")
		}
		if err := c.EventLoop().Close(c); err != nil || len(s.closed) > 0 {
			t.Error("closed twice: ", err)
		}
	})
}

// TestGnetRunsItsQueueUntilItIsEmpty: so that nothing may post itself again.
func TestGnetRunsItsQueueUntilItIsEmpty(t *testing.T) {
	const times = 1000
	ran, done := 0, make(chan int)
	h := &handler{traffic: func(gnet.Conn) gnet.Action { done <- ran; return gnet.None }}
	s := start(t, h, h, []gnet.Option{gnet.WithNumEventLoop(1)})
	nc := dial(t, s.address)
	c := receive(t, s.opened)
	var again func(context.Context) error
	again = func(ctx context.Context) error {
		if ran++; ran == 1 {
			nc.Write([]byte("x")) // waits for the queue
		}
		if ran < times {
			return c.EventLoop().Execute(ctx, gnet.RunnableFunc(again))
		}
		return nil
	}
	if err := c.EventLoop().Execute(t.Context(), gnet.RunnableFunc(again)); err != nil {
		t.Fatal(err)
	}
	if n := receive(t, done); n != times {
		t.Errorf("input was read after %d of %d tasks", n, times)
	}
}

// TestGnetShutsDownInThisOrder: OnShutdown comes while loops still run, and
// OnClose after it.
func TestGnetShutsDownInThisOrder(t *testing.T) {
	over := false
	s, c := bare(t, &handler{
		shutdown: func() { over = true },
		close: func(gnet.Conn, error) gnet.Action {
			if !over {
				t.Error("OnClose came before OnShutdown")
			}
			return gnet.None
		},
	})
	s.stop(t)
	receive(t, s.closed)
	err := c.EventLoop().Execute(context.Background(), gnet.RunnableFunc(func(context.Context) error { return nil }))
	if !errors.Is(err, gneterrors.ErrEngineInShutdown) {
		t.Error("Execute after the end: ", err)
	}
}
