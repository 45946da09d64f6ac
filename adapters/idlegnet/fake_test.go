package idlegnet

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/idle"
)

// fake is a connection without a socket.
type fake struct {
	gnet.Conn
	fd, in, out int
	loop        *fakeLoop
}

func (f *fake) Fd() int                   { return f.fd }
func (f *fake) InboundBuffered() int      { return f.in }
func (f *fake) OutboundBuffered() int     { return f.out }
func (f *fake) EventLoop() gnet.EventLoop { return f.loop }
func (*fake) LocalAddr() net.Addr         { return &net.TCPAddr{} }

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
