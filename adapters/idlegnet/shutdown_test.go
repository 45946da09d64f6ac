package idlegnet

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
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

// TestDrainWaitsForARequest: a request that the handler has not taken from gnet's buffer yet is not cut.
func TestDrainWaitsForARequest(t *testing.T) {
	taken := false
	virtually(t, &handler{traffic: func(c gnet.Conn) gnet.Action {
		if taken {
			c.Discard(-1)
		}
		return gnet.None
	}}, idle.Policy{IdleTimeout: time.Hour}, nil, func(w *world) {
		c, _ := w.open()
		w.send(c, 5)
		drain, err := w.Tracker().Drain(idle.Drain{})
		if err != nil {
			w.Fatal(err)
		}
		time.Sleep(time.Minute)
		w.wantOpen(w)
		taken = true
		w.send(c, 0)
		<-drain.Done()
		if err, ok := receive(w, w.closed).err.(*idle.TimeoutError); !ok || err.Reason != idle.ReasonDrain {
			w.Error(err)
		}
	})
}

// TestShutdownFollowsAnotherDrain: a drain that is begun by hand takes the place of Shutdown's, which
// then goes on until that one has ended the connections.
func TestShutdownFollowsAnotherDrain(t *testing.T) {
	virtually(t, &handler{}, idle.Policy{IdleTimeout: time.Hour, NoInterrupt: true}, nil, func(w *world) {
		w.open()
		done := make(chan error)
		go func() { done <- w.Shutdown(context.Background(), idle.Drain{}) }()
		synctest.Wait()
		time.Sleep(time.Minute)
		w.wantOpen(w)
		begun := time.Now()
		if _, err := w.Tracker().Drain(idle.Drain{ForceAfter: time.Second}); err != nil {
			w.Fatal(err)
		}
		if err := <-done; err != nil || time.Since(begun) < time.Second {
			w.Errorf("after %v: %v", time.Since(begun), err)
		}
		if got := receive(w, w.closed); got.err == nil {
			w.Error("closed for nothing")
		}
	})
}

// TestShutdownOfNothing fails if there is no engine, or none any more.
func TestShutdownOfNothing(t *testing.T) {
	h := wrap(t, &handler{}, idle.Policy{IdleTimeout: time.Hour}, nil)
	for _, when := range []func(gnet.Engine){func(gnet.Engine) {}, func(e gnet.Engine) { h.OnBoot(e); h.OnShutdown(e) }} {
		when(gnet.Engine{})
		for range 2 {
			if err := h.Shutdown(t.Context(), idle.Drain{}); err != errNotServing {
				t.Errorf("it returns %v", err)
			}
		}
	}
}
