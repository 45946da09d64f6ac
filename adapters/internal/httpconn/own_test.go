package httpconn

import (
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/idle"
)

// setLimits gives the request of c limits of its own.
func setLimits(t *testing.T, c *Conn, own httplimits.RequestLimits) {
	t.Helper()
	if err := SetLimits("httpconn", c, 0, own); err != nil {
		t.Fatal(err)
	}
}

// readsBody has a handler read the body of a request.
func readsBody(c *Conn, _ *wire) {
	c.HeaderRead()
	c.ReadBody(true)
}

// ends waits for the end of a Read, which has to come so long after the call, and by that
// setting.
func ends(t *testing.T, c *Conn, want time.Duration, setting string) {
	t.Helper()
	begun := time.Now()
	c.Read(make([]byte, 1))
	took, err := time.Since(begun), c.Timeout()
	if took < want || took > want+want/10+50*time.Millisecond || err == nil || err.Setting != setting {
		t.Errorf("ended after %v by %v, want %v by %s", took, err, want, setting)
	}
}

// TestOwnLimits of each kind take the place of the listener's, or leave them where they
// are zero.
func TestOwnLimits(t *testing.T) {
	const off = httplimits.Off
	rate := func(grace time.Duration) idle.Rate { return idle.Rate{BytesPerSecond: 1, Grace: grace} }
	for name, test := range map[string]struct {
		own  httplimits.RequestLimits
		want time.Duration
		by   string
	}{
		"none":           {httplimits.RequestLimits{}, 4 * time.Second, "BodyTimeout"},
		"longer":         {httplimits.RequestLimits{BodyTimeout: time.Minute}, time.Minute, "BodyTimeout"},
		"shorter":        {httplimits.RequestLimits{BodyTimeout: time.Second}, time.Second, "BodyTimeout"},
		"rate":           {httplimits.RequestLimits{BodyTimeout: off, BodyRate: rate(10 * time.Second)}, 11250 * time.Millisecond, "BodyRate"},
		"grace":          {httplimits.RequestLimits{BodyTimeout: off, BodyRate: rate(0)}, 5625 * time.Millisecond, "BodyRate"},
		"handler":        {httplimits.RequestLimits{BodyTimeout: off, HandlerTimeout: 20 * time.Second}, 20 * time.Second, "HandlerTimeout"},
		"write is other": {httplimits.RequestLimits{WriteTimeout: time.Second, WriteRate: rate(time.Second)}, 4 * time.Second, "BodyTimeout"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, unlimited(), func(t *testing.T, l *Listener, c *Conn, w *wire) {
				readsBody(c, w)
				time.Sleep(time.Minute)
				setLimits(t, c, test.own)
				ends(t, c, test.want, test.by)
			})
		})
	}
}

// TestOwnLimitsEndWithTheRequest: they don't go on between requests, nor in a hijacked connection.
func TestOwnLimitsEndWithTheRequest(t *testing.T) {
	for name, test := range map[string]struct {
		next func(*Conn)
		want time.Duration
		by   string
	}{
		"keep-alive": {(*Conn).Idle, 8 * time.Second, "KeepAliveTimeout"},
		"pipelined":  {func(c *Conn) { c.Idle(); readsBody(c, nil) }, 4 * time.Second, "BodyTimeout"},
		"hijacked":   {(*Conn).Hijack, 32 * time.Second, "IdleTimeout"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, distinct(), func(t *testing.T, l *Listener, c *Conn, w *wire) {
				readsBody(c, w)
				setLimits(t, c, httplimits.RequestLimits{BodyTimeout: time.Hour, WriteTimeout: httplimits.Off})
				time.AfterFunc(30*time.Minute, func() { w.sends("x") })
				if n, err := c.Read(make([]byte, 1)); n != 1 {
					t.Fatal("reading a body: ", err)
				}
				test.next(c)
				ends(t, c, test.want, test.by)
			})
		})
	}
}

// TestOwnLimitsFollow SetTimeouts in what they leave to the listener.
func TestOwnLimitsFollow(t *testing.T) {
	limits := unlimited()
	limits.HandlerTimeout = 10 * time.Minute
	inBubble(t, limits, func(t *testing.T, l *Listener, c *Conn, w *wire) {
		c.HeaderRead()
		setLimits(t, c, httplimits.RequestLimits{BodyTimeout: time.Hour})
		limits.BodyTimeout, limits.HandlerTimeout = time.Second, time.Minute
		if err := l.SetTimeouts(limits); err != nil {
			t.Fatal(err)
		}
		ends(t, c, time.Minute, "HandlerTimeout")
	})
}

// TestOwnPhases are made once, and not kept without bound.
func TestOwnPhases(t *testing.T) {
	inBubble(t, unlimited(), func(t *testing.T, l *Listener, c *Conn, w *wire) {
		own := httplimits.RequestLimits{BodyTimeout: time.Minute}
		c.HeaderRead()
		setLimits(t, c, own)
		first := l.own.made[ownLimits{own, Request}]
		setLimits(t, c, own)
		if l.own.made[ownLimits{own, Request}] != first || len(l.own.made) != 1 {
			t.Errorf("there are %d phases", len(l.own.made))
		}
		for i := range 2 * maxOwnPhases {
			own.BodyTimeout += time.Second
			setLimits(t, c, own)
			if n := len(l.own.made); n != min(i+2, maxOwnPhases) {
				t.Fatalf("%d phases are kept after %d different limits", n, i+2)
			}
		}
	})
}

// TestSetLimitsRefuses what makes no sense, and what comes too late.
func TestSetLimitsRefuses(t *testing.T) {
	inBubble(t, unlimited(), func(t *testing.T, l *Listener, c *Conn, w *wire) {
		refuses := func(own httplimits.RequestLimits, says string) {
			t.Helper()
			if err := SetLimits("httpconn", c, 0, own); err == nil || !strings.Contains(err.Error(), says) || !strings.HasPrefix(err.Error(), "httpconn: SetLimits: ") {
				t.Errorf("%+v: %v, want one that says %q", own, err, says)
			}
			if c.state.Load()&limited != 0 {
				t.Errorf("%+v: the request has limits of its own", own)
			}
		}
		refuses(httplimits.RequestLimits{}, "the request has ended")
		c.HeaderRead()
		refuses(httplimits.RequestLimits{BodyTimeout: -5}, "BodyTimeout is -5ns; use 0 for the listener's, or Off")
		refuses(httplimits.RequestLimits{BodyRate: idle.Rate{BytesPerSecond: -5}}, "BodyRate.BytesPerSecond is -5; use 0 for the listener's")
		refuses(httplimits.RequestLimits{WriteRate: idle.Rate{BytesPerSecond: 5, Grace: -5}}, "WriteRate.Grace is -5ns")
		c.Idle()
		refuses(httplimits.RequestLimits{}, "the request has ended")
		c.HeaderRead()
		c.Hijack()
		refuses(httplimits.RequestLimits{}, "hijacked; use Watch")
		if err := SetLimits("httpconn", w, 0, httplimits.RequestLimits{}); err == nil || !strings.Contains(err.Error(), "did not arrive on a listener of this package") {
			t.Errorf("another connection: %v", err)
		}
	})
}
