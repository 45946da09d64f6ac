package idlegnet

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/idle"
)

// lone is a connection without a socket, on a loop of its own that does nothing.
type lone struct {
	fake
	loop busy
}

type busy struct{ gnet.EventLoop }

func (*busy) Execute(context.Context, gnet.Runnable) error { return nil }

func (l *lone) EventLoop() gnet.EventLoop { return &l.loop }
func (*lone) LocalAddr() net.Addr         { return &net.TCPAddr{} }

// traffic returns what calls h's OnTraffic with new bytes, as a loop does.
func traffic(tb testing.TB, h gnet.EventHandler) func() {
	c := &lone{fake: fake{fd: 7}}
	h.OnBoot(gnet.Engine{})
	h.OnOpen(c)
	tb.Cleanup(func() {
		h.OnClose(c, nil)
		h.OnShutdown(gnet.Engine{})
	})
	return func() {
		c.in = 64
		h.OnTraffic(c)
	}
}

// consume is a handler that does nothing but read, so that what remains is the
// adapter.
func consume() *handler {
	return &handler{traffic: func(c gnet.Conn) gnet.Action {
		c.(*lone).in = 0
		return gnet.None
	}}
}

func everything() (idle.Policy, *Options) {
	return idle.Policy{
		IdleTimeout: time.Minute, ReadTimeout: time.Minute, WriteTimeout: time.Minute, MaxAge: time.Hour,
		Heartbeat: idle.Heartbeat{Interval: time.Minute, Timeout: time.Minute},
	}, &Options{Ping: func(gnet.Conn) error { return nil }}
}

func TestOnTrafficAllocatesNothing(t *testing.T) {
	p, opts := everything()
	if n := testing.AllocsPerRun(1000, traffic(t, wrap(t, consume(), p, opts))); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkOnTraffic(b *testing.B) {
	p, opts := everything()
	for name, h := range map[string]gnet.EventHandler{"bare": consume(), "wrapped": wrap(b, consume(), p, opts)} {
		b.Run(name, func(b *testing.B) {
			f := traffic(b, h)
			for b.Loop() {
				f()
			}
		})
	}
}
