package httpconn

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/idle"
)

// TestHijackedPolicySwitched: a connection that was hijacked gets the new policy, unless Watch has
// applied one.
func TestHijackedPolicySwitched(t *testing.T) {
	for name, test := range map[string]struct {
		was, is time.Duration
		watch   bool
		want    time.Duration
	}{
		"without":            {0, time.Minute, false, time.Minute},
		"with, then without": {time.Minute, 0, false, time.Hour},
		"watched":            {0, time.Minute, true, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			limits := unlimited()
			limits.Hijacked.IdleTimeout = test.was
			inBubble(t, limits, func(t *testing.T, l *Listener, c *Conn, w *wire) {
				c.Hijack()
				if test.watch {
					watch(t, c, idle.Policy{IdleTimeout: 3 * time.Second}, httplimits.Callbacks{})
				}
				limits.Hijacked.IdleTimeout = test.is
				if err := l.SetTimeouts(limits); err != nil {
					t.Fatal(err)
				}
				begun := time.Now()
				time.AfterFunc(time.Hour, func() { w.Close() })
				c.Read(make([]byte, 1))
				if took := time.Since(begun); took < test.want || took > test.want+test.want/10 {
					t.Errorf("ended after %v by %v, want %v", took, c.Timeout(), test.want)
				}
			})
		})
	}
}

// TestSetTimeoutsRefuses what NewListener refuses, and what cannot be changed. Nothing is
// changed then.
func TestSetTimeoutsRefuses(t *testing.T) {
	limits := distinct()
	limits.Idle.Tick = 20 * time.Millisecond
	inBubble(t, limits, func(t *testing.T, l *Listener, c *Conn, w *wire) {
		was := l.now.Load()
		beat := idle.Heartbeat{Interval: time.Second, Timeout: time.Second}
		for _, test := range []struct {
			to   httplimits.Timeouts
			says string
		}{
			{httplimits.Timeouts{HandshakeTimeout: -2}, "HandshakeTimeout is -2ns; use 0 for the default of 10s, or Off to disable it"},
			{httplimits.Timeouts{WriteRate: idle.Rate{BytesPerSecond: 1, Grace: -1}}, "WriteRate.Grace is -1ns"},
			{httplimits.Timeouts{Hijacked: idle.Policy{Heartbeat: beat}}, "Hijacked.Heartbeat is active"},
			{httplimits.Timeouts{Hijacked: idle.Policy{IdleTimeout: -2}}, "IdleTimeout is -2ns"},
			{httplimits.Timeouts{MaxAgeJitter: time.Second}, "MaxAgeJitter is 1s, but MaxAge is off; set MaxAge too"},
			{httplimits.Timeouts{Idle: idle.Options{Tick: time.Second}}, "Idle.Tick is 1s, but the listener was made with 20ms"},
			{httplimits.Timeouts{Idle: idle.Options{Shards: 3}}, "Idle.Shards is 3"},
			{httplimits.Timeouts{Idle: idle.Options{Budget: 3}}, "Idle.Budget is 3ns"},
			{httplimits.Timeouts{OnTimeout: func(net.Conn, *idle.TimeoutError) bool { return true }}, "OnTimeout is set"},
		} {
			err := l.SetTimeouts(test.to)
			if err == nil || !strings.Contains(err.Error(), test.says) || !strings.HasPrefix(err.Error(), "httpconn: ") {
				t.Errorf("%+v: %v, want one that says %q", test.to, err, test.says)
			}
			if l.now.Load() != was {
				t.Errorf("%+v: the terms have changed", test.to)
			}
			for p, phase := range l.phases {
				if phase.Policy() != was.policies[p] {
					t.Errorf("%+v: the phase %q has changed", test.to, Phase(p))
				}
			}
		}
		same := limits
		same.BodyTimeout = time.Minute
		if err := l.SetTimeouts(same); err != nil {
			t.Errorf("the same options: %v", err)
		}
	})
}

// TestSetTimeoutsAfterTheEnd fails, and says so.
func TestSetTimeoutsAfterTheEnd(t *testing.T) {
	inBubble(t, distinct(), func(t *testing.T, l *Listener, c *Conn, w *wire) {
		c.Close()
		l.Close()
		time.Sleep(time.Second)
		if err := l.SetTimeouts(httplimits.Timeouts{}); !errors.Is(err, idle.ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
}

// TestSetTimeoutsOnTimeout: another function takes the place of the first, and nil does
// not.
func TestSetTimeoutsOnTimeout(t *testing.T) {
	asked := make(chan string, 10)
	ask := func(name string) func(net.Conn, *idle.TimeoutError) bool {
		return func(net.Conn, *idle.TimeoutError) bool { asked <- name; return len(asked) < 3 }
	}
	limits := distinct()
	limits.OnTimeout = ask("first")
	inBubble(t, limits, func(t *testing.T, l *Listener, c *Conn, w *wire) {
		go func() {
			time.Sleep(limits.HandshakeTimeout * 3 / 2)
			second := limits
			second.OnTimeout = ask("second")
			for _, to := range []httplimits.Timeouts{second, distinct()} {
				if err := l.SetTimeouts(to); err != nil {
					t.Error(err)
				}
				time.Sleep(limits.HandshakeTimeout)
			}
		}()
		c.Read(make([]byte, 1))
		if a, b, c := <-asked, <-asked, <-asked; a != "first" || b != "second" || c != "second" {
			t.Errorf("asked %s, %s and %s", a, b, c)
		}
		time.Sleep(time.Minute)
	})
}

// TestOnEnd is called once for each connection, before its reads fail, whatever ended it,
// and SetTimeouts without one keeps it.
func TestOnEnd(t *testing.T) {
	cases := map[string]struct {
		use  func(l *Listener, c *Conn)
		want string
	}{
		"a limit": {func(_ *Listener, c *Conn) { c.Read(make([]byte, 1)) }, "HandshakeTimeout"},
		"End":     {func(_ *Listener, c *Conn) { c.End("of_ours") }, "of_ours"},
		"a hijacked one": {func(_ *Listener, c *Conn) {
			c.Hijack()
			c.Read(make([]byte, 1))
		}, "IdleTimeout"},
		"SetTimeouts": {func(l *Listener, c *Conn) {
			to := distinct()
			to.HandshakeTimeout = 3 * time.Second
			if err := l.SetTimeouts(to); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
			c.Read(make([]byte, 1))
		}, "HandshakeTimeout"},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			ended := make(chan string, 10)
			limits := distinct()
			limits.OnEnd = func(nc net.Conn, err *idle.TimeoutError) {
				if nc.(*Conn).Timeout() == nil {
					t.Error("reads and writes don't know the timeout yet")
				}
				ended <- err.Setting + err.Cause
			}
			inBubble(t, limits, func(t *testing.T, l *Listener, c *Conn, w *wire) {
				test.use(l, c)
				time.Sleep(time.Minute)
				if got := <-ended; got != test.want || len(ended) > 0 {
					t.Errorf("got %q, and %d more", got, len(ended))
				}
			})
		})
	}
}

// TestSettingsInMetrics: the trackers have the names of Timeouts for all limits.
func TestSettingsInMetrics(t *testing.T) {
	inBubble(t, distinct(), func(t *testing.T, l *Listener, c *Conn, w *wire) {
		for _, s := range settings(new(httplimits.Timeouts)) {
			if s.limits == nil {
				continue
			}
			first := s.limits[0] // the others may belong to other settings too
			tracker := l.tracker
			if first.phase == stream {
				tracker = l.streams.tracker
			}
			if got := tracker.Setting(first.phase.String(), first.reason); got != s.name {
				t.Errorf("%v in phase %q is %q, want %q", first.reason, first.phase, got, s.name)
			}
		}
		if got := l.tracker.Setting("hijacked", idle.ReasonIdle); got != "IdleTimeout" {
			t.Errorf("hijacked connections have %q", got)
		}
	})
}
