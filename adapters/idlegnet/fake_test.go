package idlegnet

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/idle"
)

// fake is a connection without a socket.
type fake struct {
	gnet.Conn
	fd, in, out int
	written     string
	loop        *fakeLoop
}

func (f *fake) Write(b []byte) (int, error) { f.written += string(b); return len(b), nil }
func (f *fake) Discard(int) (int, error)    { f.in = 0; return 0, nil }

func (f *fake) Fd() int                   { return f.fd }
func (f *fake) InboundBuffered() int      { return f.in }
func (f *fake) OutboundBuffered() int     { return f.out }
func (f *fake) EventLoop() gnet.EventLoop { return f.loop }
func (*fake) LocalAddr() net.Addr         { return &net.TCPAddr{} }
func (f *fake) RemoteAddr() net.Addr      { return &net.TCPAddr{Port: f.fd} }

// fakeLoop is an event loop that runs nothing by itself.
type fakeLoop struct {
	gnet.EventLoop
	h      gnet.EventHandler
	posted chan gnet.Runnable // if it isn't nil
	err    error              // of Execute
	asked  atomic.Int64       // calls of Execute
}

func (l *fakeLoop) Execute(_ context.Context, r gnet.Runnable) error {
	l.asked.Add(1)
	if l.posted != nil {
		l.posted <- r
	}
	return l.err
}

func (l *fakeLoop) Close(c gnet.Conn) error { l.h.OnClose(c, nil); return nil }

// booted returns h, wrapped, as it is from OnBoot to the end of the test.
func booted(t testing.TB, h *handler, p idle.Policy, opts *Options) *Handler {
	t.Helper()
	w := wrap(t, h, p, opts)
	w.OnBoot(gnet.Engine{})
	t.Cleanup(func() { w.OnShutdown(gnet.Engine{}) })
	return w
}

// A world is a handler with an event loop, in virtual time.
type world struct {
	*testing.T
	*Handler
	*handler
	loop *fakeLoop
	fds  int
}

// virtually runs a test in a world.
func virtually(t *testing.T, h *handler, p idle.Policy, opts *Options, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		h.wrapped, h.closed = wrap(t, h, p, opts), make(chan closing, 10)
		h.wrapped.OnBoot(gnet.Engine{})
		w := &world{t, h.wrapped, h, &fakeLoop{h: h.wrapped, posted: make(chan gnet.Runnable, 10)}, 20_000}
		defer close(w.loop.posted)
		defer w.wrapped.OnShutdown(gnet.Engine{})
		go func() {
			for r := range w.loop.posted {
				r.Run(context.Background())
			}
		}()
		test(w)
	})
}

// do runs f on the loop and waits for it.
func (w *world) do(f func()) {
	w.loop.posted <- gnet.RunnableFunc(func(context.Context) error { f(); return nil })
	synctest.Wait()
}

// open returns a new connection and its Conn.
func (w *world) open() (c *fake, conn *Conn) {
	w.fds++
	c = &fake{fd: w.fds, loop: w.loop}
	w.do(func() { w.Handler.OnOpen(c); conn = w.Conn(c) })
	return c, conn
}

// send has n bytes arrive.
func (w *world) send(c *fake, n int) {
	w.do(func() { c.in += n; w.Handler.OnTraffic(c) })
}

// wantTimeout also checks that the end isn't late.
func (w *world) wantTimeout(reason idle.Reason, since time.Time, limit time.Duration) {
	w.Helper()
	got := w.handler.wantTimeout(w, reason, since, limit)
	if late := got.at.Sub(since) - limit; late > 50*ms {
		w.Errorf("closed %v late", late)
	}
}
