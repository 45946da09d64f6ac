package idlegnet

import (
	"errors"
	"log/slog"
	"strings"
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
		{"MaxConns is -1", &handler{}, minute, &Options{Capacity: idle.Capacity{MaxConns: -1}}},
	} {
		if h, err := Wrap(c.h, c.p, c.opts); h != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, %v; want an error with %q", h, err, c.want)
		}
	}
	noneLeft(t)
}

// TestNothingIsExecutedAfterShutdown: gnet closes its pollers when OnShutdown
// has returned, and Execute would write to a descriptor that may be anybody's.
func TestNothingIsExecutedAfterShutdown(t *testing.T) {
	h := booted(t, &handler{traffic: leave}, idle.Policy{IdleTimeout: ms}, &Options{Idle: idle.Options{Tick: ms}})
	loop := &fakeLoop{err: errors.New("no")}
	c, late := &fake{fd: 3, loop: loop}, &fake{fd: 4, loop: loop}
	h.OnOpen(c)
	for loop.asked.Load() < 3 {
		time.Sleep(ms)
	}
	timeouts := h.Conn(c)
	h.OnShutdown(gnet.Engine{})
	asked := loop.asked.Load()
	time.Sleep(20 * ms)
	if err := timeouts.AsyncBeat(); err == nil {
		t.Error("AsyncBeat did not fail")
	}
	if n := loop.asked.Load() - asked; n > 0 {
		t.Errorf("it was, %d times", n)
	}
	h.OnOpen(late) // which gnet may do
	for _, c := range []*fake{late, c} {
		h.OnTraffic(c)
		h.OnClose(c, nil)
	}
	if st := h.Stats(); st.Tracked != 1 || st.Closed != 1 {
		t.Errorf("the counts are wrong: %+v", st)
	}
}

// TestPanicInOnClose ends the process after a timeout as it does otherwise; the
// tracker does not swallow it.
func TestPanicInOnClose(t *testing.T) {
	h := booted(t, &handler{close: func(gnet.Conn, error) gnet.Action { panic("in OnClose") }},
		idle.Policy{IdleTimeout: 20 * ms}, &Options{Idle: idle.Options{Logger: slog.New(slog.DiscardHandler)}})
	loop := &fakeLoop{h: h, posted: make(chan gnet.Runnable, 1)}
	h.OnOpen(&fake{fd: 1 << 20, loop: loop})
	var panicked any
	for panicked == nil && !t.Failed() {
		pass := receive(t, loop.posted)
		func() {
			defer func() { panicked = recover() }()
			pass.Run(t.Context())
		}()
	}
	if panicked != "in OnClose" {
		t.Error("the loop was told ", panicked)
	}
}
