package httpsuite

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/idle"
)

var ofWatch = []promise{
	// A peer that answers pings lives, and one that no longer does is dropped: that is what
	// a WebSocket endpoint does.
	{"Watch", wraps, func(t0 *testing.T, u under) {
		t := intime.Of(t0, 100*ms)
		beat := idle.Heartbeat{Interval: 100 * ms, Timeout: limit, Misses: 2}
		h, ended := hijack(func(h hijacked) error {
			err := h.watch(idle.Policy{Name: "lines", Heartbeat: beat}, func() error {
				_, err := io.WriteString(h, "ping\n")
				return err
			})
			if err != nil {
				t.Error(err)
			}
			return echoLines(h)
		})
		s := u.start(t, All(time.Second), h)
		c := s.Dial()
		c.upgrade()
		var last time.Time
		for range 8 { // each is sent back as well
			c.Line("ping")
			last = c.Send("pong\n")
			c.Line("pong")
		}
		s.WantNone()
		rest, _ := io.ReadAll(c.In)
		NotBefore(t0, time.Now(), last, beat.Interval+2*beat.Timeout)
		if strings.ReplaceAll(string(rest), "ping\n", "") != "" || len(rest) != 2*len("ping\n") {
			t.Errorf("got %q, want two pings", rest)
		}
		WantTimeout(t, Receive(t, ended), "lines", idle.ReasonHeartbeat)
		s.WantOnly(1, "hijacked", idle.ReasonHeartbeat)
		if n := s.Stats().Pings; n < 10 {
			t.Errorf("%d pings", n)
		}
	}},

	// Watch can take back what it has said.
	{"WatchTwice", usual, func(t0 *testing.T, u under) {
		t := intime.Of(t0, 100*ms)
		h, ended := hijack(func(h hijacked) error {
			for _, p := range []idle.Policy{{IdleTimeout: limit}, {}} {
				if err := h.watch(p, nil); err != nil {
					t.Error(err)
				}
			}
			return echoLines(h)
		})
		s := u.start(t, Off(), h)
		c := s.Dial()
		c.upgrade()
		time.Sleep(2 * limit)
		c.Send("hello\n")
		c.Line("hello")
		c.Close()
		Receive(t, ended)
		s.WantNone()
	}},

	// Watch refuses what makes no sense, which does no harm.
	{"WatchRefuses", wraps, func(t *testing.T, u under) {
		h, _ := hijack(func(h hijacked) error {
			ping := func() error { return nil }
			WantError(t, h.watch(idle.Policy{Heartbeat: idle.Heartbeat{Interval: limit, Timeout: limit}}, nil), u.Package+": ", "ping is nil")
			WantError(t, h.watch(idle.Policy{IdleTimeout: -1}, ping), u.Package+": ", "IdleTimeout is -1ns")
			WantError(t, h.watch(idle.Policy{Heartbeat: idle.Heartbeat{Interval: limit}}, ping), u.Package+": ", "Heartbeat.Timeout is 0")
			return echoLines(h)
		})
		c := u.start(t, Only(time.Minute), h).Dial()
		c.upgrade()
		c.Send("hello\n")
		c.Line("hello")
	}},

	// Watch of a connection that was not hijacked is refused, and does no harm.
	{"WatchWithoutHijack", usual, func(t *testing.T, u under) {
		s := u.start(t, Only(limit, "HeaderTimeout"), func(r Request) {
			WantError(t, r.Watch(nil, idle.Policy{IdleTimeout: time.Minute}, nil), u.Package+": ", "was not hijacked")
		})
		c := s.Dial()
		c.Get("/")
		begun := c.Send("GET")
		NotBefore(t, c.Refused(408), begun, limit)
		if n := s.Stats().Panics; n > 0 {
			t.Errorf("%d panics", n)
		}
		s.WantOnly(1, "request header", idle.ReasonReadTotal)
	}},

	// Watch takes limits that are shorter than the tick of all others, and counts what it
	// times out.
	{"WatchShorterThanTheTick", wraps, func(t *testing.T, u under) {
		h, ended := hijack(func(h hijacked) error {
			if err := h.watch(idle.Policy{IdleTimeout: 50 * ms}, nil); err != nil {
				h.Close()
				return err
			}
			return echoLines(h)
		})
		s := u.start(t, Only(time.Minute), h)
		c := s.Dial()
		c.Send(Upgrade)
		WantTimeout(t, Receive(t, ended), "hijacked", idle.ReasonIdle)
		c.Drain()
		s.WantOnly(1, "hijacked", idle.ReasonIdle)
	}},

	// Watch after the server's end is refused if nothing is left that could watch.
	{"WatchAfterTheEnd", usual, func(t *testing.T, u under) {
		kept := make(chan hijacked, 1)
		h, _ := hijack(func(h hijacked) error { kept <- h; return nil })
		s := u.start(t, Off(), h, keepHijacked)
		s.Dial().upgrade()
		nc := Receive(t, kept)
		defer nc.Close()
		for _, p := range []idle.Policy{{IdleTimeout: time.Hour}, {}} {
			if err := nc.watch(p, nil); err != nil {
				t.Error(err)
			}
		}
		s.End()
		err := nc.watch(idle.Policy{IdleTimeout: time.Hour}, nil)
		if WantError(t, err, "listener"); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Watch after the end of the listener gives %v", err)
		}
		if err := nc.watch(idle.Policy{}, nil); err != nil {
			t.Errorf("Watch without limits after the end of the listener gives %v", err)
		}
	}},
}
