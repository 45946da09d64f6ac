package idlegnet

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/idle"
)

func TestWrapRefuses(t *testing.T) {
	minute := idle.Policy{IdleTimeout: time.Minute}
	for _, c := range []struct {
		want string
		h    gnet.EventHandler
		p    idle.Policy
		opts *Options
	}{
		{"idlegnet: the handler to wrap is a <nil>", nil, minute, nil},
		{"idlegnet: the handler to wrap is a *idlegnet.Handler", wrap(t, &handler{}, minute, nil), minute, nil},
		{"idle: the policy sets no limit", &handler{}, idle.Policy{}, nil},
		{"IdleTimeout is -1ns", &handler{}, idle.Policy{IdleTimeout: -1}, nil},
		{"(every 1s), but there is no Ping to call", &handler{}, idle.Policy{Heartbeat: idle.Heartbeat{Interval: time.Second, Timeout: time.Second}}, nil},
		{"Options.Tick is 1ns", &handler{}, minute, &Options{Idle: idle.Options{Tick: 1}}},
		{"Options.Budget is -1ns", &handler{}, minute, &Options{Idle: idle.Options{Budget: -1}}},
		{"IdleTimeout is 30ns", &handler{}, idle.Policy{IdleTimeout: 30}, nil},
		{"idlegnet: Options.MaxUnsent is -1", &handler{}, minute, &Options{MaxUnsent: -1}},
	} {
		if h, err := Wrap(c.h, c.p, c.opts); h != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, %v; want an error with %q", h, err, c.want)
		}
	}
	noneLeft(t)
}

// refusing is an event loop that takes nothing any more.
type refusing struct {
	gnet.EventLoop
	asked atomic.Int64
}

func (r *refusing) Execute(context.Context, gnet.Runnable) error {
	r.asked.Add(1)
	return errors.New("no")
}

type onRefusing struct {
	lone
	loop *refusing
}

func (c *onRefusing) EventLoop() gnet.EventLoop { return c.loop }

// TestNothingIsExecutedAfterShutdown: gnet closes its pollers when OnShutdown
// has returned, and Execute would write to a descriptor that may be anybody's.
func TestNothingIsExecutedAfterShutdown(t *testing.T) {
	nothing := func(gnet.Conn) gnet.Action { return gnet.None }
	h := wrap(t, &handler{traffic: nothing}, idle.Policy{IdleTimeout: ms}, &Options{Idle: idle.Options{Tick: ms}})
	h.OnBoot(gnet.Engine{})
	c := &onRefusing{lone{fake: fake{fd: 3}}, &refusing{}}
	h.OnOpen(c)
	for c.loop.asked.Load() < 3 {
		time.Sleep(ms)
	}
	timeouts := h.Conn(c)
	h.OnShutdown(gnet.Engine{})
	asked := c.loop.asked.Load()
	time.Sleep(20 * ms)
	if err := timeouts.AsyncBeat(); err == nil {
		t.Error("AsyncBeat did not fail")
	}
	if n := c.loop.asked.Load() - asked; n > 0 {
		t.Errorf("it was, %d times", n)
	}
	late := &onRefusing{lone{fake: fake{fd: 4}}, c.loop}
	h.OnOpen(late) // which gnet may do
	h.OnTraffic(late)
	h.OnClose(late, nil)
	h.OnTraffic(c)
	h.OnClose(c, nil)
	if st := h.Stats(); st.Tracked != 1 || st.Closed != 1 {
		t.Errorf("the counts are wrong: %+v", st)
	}
}
