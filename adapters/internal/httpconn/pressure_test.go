package httpconn

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/idle"
	"github.com/idlewheel/idlewheel/idle/pressure"
)

// TestPressureOnKeepAlive has a connection wait for its next request while the pressure
// rises and falls.
func TestPressureOnKeepAlive(t *testing.T) {
	inBubble(t, httplimits.Timeouts{KeepAliveTimeout: 100 * time.Second}, func(t *testing.T, l *Listener, _ *Conn, _ *wire) {
		var percent atomic.Int64
		c := pressure.Config{Read: func() (float64, error) { return float64(percent.Load()) / 100, nil }}
		f, err := l.FollowPressure(c, httplimits.Timeouts{KeepAliveTimeout: 10 * time.Second, WriteTimeout: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		want := func(pressure float64, keepAlive, write time.Duration) {
			t.Helper()
			percent.Store(int64(100 * pressure))
			time.Sleep(20 * time.Second)
			if got := l.phases[KeepAlive].Policy(); got.ReadTimeout != keepAlive || got.WriteTimeout != write {
				t.Errorf("at %v: %v and %v", pressure, got.ReadTimeout, got.WriteTimeout)
			}
			for _, phase := range []*idle.Phase{l.streams.phase, l.streams.window} {
				if got := phase.Policy(); got.WriteTimeout != write {
					t.Errorf("at %v, streams: %v", pressure, got.WriteTimeout)
				}
			}
		}
		want(0, 100*time.Second, 30*time.Second)
		want(0.5, 55*time.Second, 15500*time.Millisecond)
		want(1, 10*time.Second, time.Second)
		if err := l.SetTimeouts(httplimits.Timeouts{KeepAliveTimeout: 40 * time.Second}); err != nil {
			t.Error(err)
		}
		want(0.5, 25*time.Second, 15500*time.Millisecond)
		if _, err := l.FollowPressure(c, httplimits.Timeouts{KeepAliveTimeout: time.Second}); err == nil || !strings.Contains(err.Error(), "follows a pressure already") {
			t.Errorf("twice: %v", err)
		}
		f.Stop()
		want(1, 40*time.Second, 30*time.Second)
		if f, err = l.FollowPressure(c, httplimits.Timeouts{WriteTimeout: 10 * time.Second}); err != nil {
			t.Error(err)
		}
		want(0.5, 40*time.Second, 20*time.Second)
		f.Stop()
	})
}

// TestTimeoutsAsTightAsFull sets Timeouts that equal those in force at full pressure. They stay.
func TestTimeoutsAsTightAsFull(t *testing.T) {
	inBubble(t, httplimits.Timeouts{KeepAliveTimeout: time.Minute}, func(t *testing.T, l *Listener, _ *Conn, _ *wire) {
		var percent atomic.Int64
		percent.Store(100)
		tight := httplimits.Timeouts{KeepAliveTimeout: time.Second, WriteTimeout: 2 * time.Second}
		f, err := l.FollowPressure(pressure.Config{Read: func() (float64, error) { return float64(percent.Load()) / 100, nil }}, tight)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.SetTimeouts(tight); err != nil {
			t.Error(err)
		}
		percent.Store(0)
		time.Sleep(20 * time.Second)
		if got := l.phases[KeepAlive].Policy().ReadTimeout; got != time.Second {
			t.Errorf("KeepAliveTimeout is %v after the pressure", got)
		}
		for _, phase := range []*idle.Phase{l.streams.phase, l.streams.window} {
			if got := phase.Policy().WriteTimeout; got != 2*time.Second {
				t.Errorf("WriteTimeout of streams is %v after the pressure", got)
			}
		}
		f.Stop()
	})
}

func TestPressureRefuses(t *testing.T) {
	inBubble(t, httplimits.Timeouts{}, func(t *testing.T, l *Listener, _ *Conn, _ *wire) {
		read := func() (float64, error) { return 0, nil }
		for want, test := range map[string]struct {
			c    pressure.Config
			full httplimits.Timeouts
		}{
			"BodyTimeout is 1m0s at full pressure, longer than the 30s at rest": {pressure.Config{Read: read}, httplimits.Timeouts{BodyTimeout: time.Minute}},
			"BodyTimeout is -1ns at full pressure":                              {pressure.Config{Read: read}, httplimits.Timeouts{BodyTimeout: httplimits.Off}},
			"BodyRate.BytesPerSecond is 100 at full pressure":                   {pressure.Config{Read: read}, httplimits.Timeouts{BodyRate: idle.Rate{BytesPerSecond: 100}}},
			"WriteRate.Grace is 1m0s at full pressure":                          {pressure.Config{Read: read}, httplimits.Timeouts{WriteRate: idle.Rate{BytesPerSecond: 500, Grace: time.Minute}}},
			"MaxUnsent is 100 at full pressure, but":                            {pressure.Config{Read: read}, httplimits.Timeouts{MaxUnsent: 100}},
			"no field of the Timeouts":                                          {pressure.Config{Read: read}, httplimits.Timeouts{}},
			"Config.Policy or Phases is set":                                    {pressure.Config{Read: read, Policy: idle.Policy{IdleTimeout: 1}}, httplimits.Timeouts{BodyTimeout: 1}},
			"Config.From is 2":                                                  {pressure.Config{Read: read, From: 2, Full: 3}, httplimits.Timeouts{BodyTimeout: time.Second}},
		} {
			if _, err := l.FollowPressure(test.c, test.full); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
	})
}
