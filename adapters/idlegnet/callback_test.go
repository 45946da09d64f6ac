package idlegnet

import (
	"context"
	"testing"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/idle"
)

// passes is an event loop whose passes are run by a test.
type passes struct {
	gnet.EventLoop
	h      gnet.EventHandler
	posted chan gnet.Runnable
}

func (p *passes) Execute(_ context.Context, r gnet.Runnable) error { p.posted <- r; return nil }

func (p *passes) Close(c gnet.Conn) error { p.h.OnClose(c, nil); return nil }

type onPasses struct {
	lone
	loop *passes
}

func (c *onPasses) EventLoop() gnet.EventLoop { return c.loop }

// TestPanicInOnClose ends the process after a timeout as it does otherwise; the
// tracker does not swallow it.
func TestPanicInOnClose(t *testing.T) {
	h := wrap(t, &handler{close: func(gnet.Conn, error) gnet.Action { panic("in OnClose") }},
		idle.Policy{IdleTimeout: 20 * ms}, &Options{Idle: idle.Options{Logger: quiet()}})
	h.OnBoot(gnet.Engine{})
	defer h.OnShutdown(gnet.Engine{})
	c := &onPasses{lone{fake: fake{fd: 1 << 20}}, &passes{h: h, posted: make(chan gnet.Runnable, 1)}}
	h.OnOpen(c)
	var panicked any
	for panicked == nil && !t.Failed() {
		pass := receive(t, c.loop.posted)
		func() {
			defer func() { panicked = recover() }()
			pass.Run(t.Context())
		}()
	}
	if panicked != "in OnClose" {
		t.Error("the loop was told ", panicked)
	}
}
