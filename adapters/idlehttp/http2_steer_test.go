package idlehttp

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

// within checks that a limit has passed in time.
func within(t *testing.T, took, limit time.Duration) {
	t.Helper()
	if took < limit || took > limit+limit/8+2*time.Second { // what a rate forgives comes before it
		t.Errorf("it took %v, want %v", took, limit)
	}
}

// Streams that are open follow SetTimeouts, also if streams had no limits before.
func TestHTTP2SetTimeoutsOfStreams(t *testing.T) {
	const limit = 300 * ms
	for setting, test := range map[string]struct {
		window uint32
		block  string
		flags  byte
	}{
		"BodyTimeout":  {defaultWindow, postBlock, 0},
		"BodyRate":     {defaultWindow, postBlock, 0},
		"WriteTimeout": {noWindow, getBlock, endStream},
	} {
		for before, first := range map[string]Timeouts{"off": httpsuite.Off(), "on": httpsuite.Only(4*limit, setting)} {
			t.Run(setting+", before "+before, func(t *testing.T) {
				first.StreamTimeout, first.KeepAliveTimeout = patience, patience
				virtual(t, first, test.window, func(w http.ResponseWriter, r *http.Request) {
					reads(w, r)
					writes(w, r)
				}, func(t *testing.T, f framed) {
					begun := f.open(1, test.block, test.flags)
					f.site.Set(httpsuite.Only(time.Minute, setting))
					time.Sleep(5 * limit)
					f.site.wantReset(0)
					f.site.Set(httpsuite.Only(7*limit, setting))
					within(t, f.wantFrame("its end", func(g got) bool { return g.kind == typeReset || g.kind == typeHeaders && test.flags == 0 }).Sub(begun), 7*limit)
					f.site.wantReset(1)
					if n := f.site.Stats().Limits[setting]; n != 1 {
						t.Errorf("%d by %s", n, setting)
					}
				})
			})
		}
	}
}

// So does the connection.
func TestHTTP2SetTimeoutsOfConnections(t *testing.T) {
	const limit = 10 * time.Second
	for setting, test := range map[string]struct {
		text, phase string
		reason      idle.Reason
		handler     http.HandlerFunc
	}{
		"HandshakeTimeout": {"", "handshake", idle.ReasonPhase, waits},
		"KeepAliveTimeout": {request, "keep-alive", idle.ReasonPhase, answers},
		"StreamTimeout":    {request, "streams", idle.ReasonIdle, waits},
	} {
		t.Run(setting, func(t *testing.T) {
			virtual(t, httpsuite.Only(time.Minute), defaultWindow, test.handler, func(t *testing.T, f framed) {
				begun := f.Send(test.text)
				time.Sleep(limit / 2)
				f.site.Set(httpsuite.Only(limit, setting))
				within(t, f.Drain().Sub(begun), limit)
				f.site.WantOnly(1, test.phase, test.reason)
			})
		})
	}
}

// One stream has limits of its own: an upload of an hour beside requests that have ten
// seconds, on one connection. It keeps them if the listener's change.
func TestHTTP2SetLimits(t *testing.T) {
	limits := Timeouts{BodyTimeout: 10 * time.Second, HandlerTimeout: 10 * time.Second}
	virtual(t, limits, defaultWindow, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("own") != "" {
			own := RequestLimits{BodyTimeout: 2 * time.Minute, BodyRate: idle.Rate{BytesPerSecond: 1, Grace: 2 * time.Minute}, HandlerTimeout: 2 * time.Hour}
			httpsuite.NoError(t, SetLimits(r, own))
		}
		reads(w, r)
	}, func(t *testing.T, f framed) {
		const upload = 1
		f.open(upload, postBlock+"\x00\x03own\x01x", 0)
		next := uint32(3)
		for minute := range 60 {
			time.Sleep(time.Minute)
			f.data(upload, 150, 0)
			if minute == 30 {
				f.site.Set(Timeouts{BodyTimeout: time.Second})
			}
			if minute%10 == 0 {
				f.open(next, postBlock, 0) // is answered too, by 503 or 408, and reset because of its body
				f.wantReset(next)
				f.get(next + 2)
				next += 4
			}
		}
		f.data(upload, 1, endStream)
		f.wantEnd(upload)
		f.site.wantReset(6)
	})
}

// A stream is cut by limits of its own, which count from the call, and name their settings.
func TestHTTP2SetLimitsCut(t *testing.T) {
	const limit = 20 * time.Second
	rate := idle.Rate{BytesPerSecond: 100, Grace: limit}
	for setting, test := range map[string]struct {
		own     RequestLimits
		window  uint32
		block   string
		flags   byte
		handler http.HandlerFunc
	}{
		"BodyTimeout":    {RequestLimits{BodyTimeout: limit}, defaultWindow, postBlock, 0, reads},
		"BodyRate":       {RequestLimits{BodyRate: rate}, defaultWindow, postBlock, 0, reads},
		"WriteTimeout":   {RequestLimits{WriteTimeout: limit}, noWindow, getBlock, endStream, writes},
		"WriteRate":      {RequestLimits{WriteRate: rate}, noWindow, getBlock, endStream, writes},
		"HandlerTimeout": {RequestLimits{HandlerTimeout: limit}, defaultWindow, getBlock, endStream, waits},
	} {
		t.Run(setting, func(t *testing.T) {
			virtual(t, httpsuite.Off(), test.window, func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(time.Minute)
				httpsuite.NoError(t, SetLimits(r, test.own))
				test.handler(w, r)
			}, func(t *testing.T, f framed) {
				begun := f.open(1, test.block, test.flags)
				within(t, f.wantReset(1).Sub(begun.Add(time.Minute)), limit)
				f.site.wantReset(1)
				if n := f.site.Stats().Limits[setting]; n != 1 {
					t.Errorf("%v", f.site.Stats().Limits)
				}
			})
		})
	}
}

// SetLimits of HTTP/2 says why it fails.
func TestHTTP2SetLimitsRefuses(t *testing.T) {
	inBubbles(t, func(t *testing.T, secure bool) {
		served := make(chan *http.Request, 1)
		s := startInMemory(t, secure, httpsuite.Off(), func(w http.ResponseWriter, r *http.Request) {
			httpsuite.WantError(t, SetLimits(r, RequestLimits{BodyTimeout: -2}), "idlehttp: SetLimits: BodyTimeout is -2ns")
			served <- r.WithContext(context.WithoutCancel(r.Context()))
		})
		s.do(s.transport(true), nil)
		httpsuite.WantError(t, SetLimits(httpsuite.Receive(t, served), RequestLimits{BodyTimeout: time.Minute}), "idlehttp: SetLimits: ", "has ended")
	})
}

// HandlerTimeout limits each stream from its own beginning, whatever it does. If its handler has answered nothing,
// it's answered by 503.
func TestHTTP2HandlerTimeout(t *testing.T) {
	const total = time.Minute
	for name, test := range map[string]struct {
		window  uint32
		block   string
		flags   byte
		handler http.HandlerFunc
		want    func(f framed, stream uint32) time.Time
	}{
		"silent":   {defaultWindow, getBlock, endStream, waits, framed.wantEnd},
		"body":     {defaultWindow, postBlock, 0, reads, framed.wantReset},
		"download": {1 << 20, getBlock, endStream, writes, framed.wantReset}, // the window of the connection is used up
	} {
		t.Run(name, func(t *testing.T) {
			limits := httpsuite.Off()
			limits.HandlerTimeout = total
			virtual(t, limits, test.window, test.handler, func(t *testing.T, f framed) {
				first := f.open(1, test.block, test.flags)
				time.Sleep(total / 2)
				second := f.open(3, test.block, test.flags)
				within(t, test.want(f, 1).Sub(first), total)
				within(t, test.want(f, 3).Sub(second), total)
				f.site.wantReset(2)
			})
		})
	}
}

// A HandlerTimeout that SetTimeouts turns on applies to streams that open from then on, until it turns
// it off.
func TestHTTP2HandlerTimeoutComesAndGoes(t *testing.T) {
	virtual(t, httpsuite.Off(), defaultWindow, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-time.After(10 * time.Second):
		}
	}, func(t *testing.T, f framed) {
		for i, total := range []time.Duration{Off, 2 * time.Second, Off} {
			limits := httpsuite.Off()
			limits.HandlerTimeout = total
			f.site.Set(limits)
			f.open(uint32(1+2*i), getBlock, endStream)
			time.Sleep(20 * time.Second)
			if n := f.site.Stats().Limits["HandlerTimeout"]; n != uint64(min(i, 1)) {
				t.Errorf("with HandlerTimeout of %v, %d streams of %d were reset", total, n, i+1)
			}
		}
	})
}

// TestHTTP2IdleBesideKeepalives: evictions, drains and EndIfIdle go by use. alice and carol send PINGs for a minute, and bob has
// made a request meanwhile. A newcomer takes the place of one of them.
func TestHTTP2IdleBesideKeepalives(t *testing.T) {
	virtual(t, httpsuite.Off(), defaultWindow, answers, func(t *testing.T, alice framed) {
		bob, carol := alice.site.dial2(), alice.site.dial2()
		for _, f := range []framed{alice, bob, carol} {
			f.get(1)
		}
		for _, f := range []framed{alice, carol} {
			f.again(ping, 100*ms)
			go f.Drain()
		}
		time.Sleep(50 * time.Second)
		bob.get(3)
		time.Sleep(10 * time.Second)
		tracker := alice.site.Tracker()
		if err := tracker.SetCapacity(idle.Capacity{MaxConns: 3, MinIdle: 30 * time.Second}); err != nil {
			t.Fatal(err)
		}
		alice.site.dial2().get(1)
		time.Sleep(time.Second)
		var idles []time.Duration
		if err := tracker.Visit(t.Context(), func(i idle.Info) {
			idles = append(idles, i.Idle)
			if i.Idle > 30*time.Second {
				i.EndIfIdle("idle")
			}
		}); err != nil {
			t.Fatal(err)
		}
		slices.Sort(idles)
		if len(idles) != 3 || idles[1] > 13*time.Second || idles[2] < 60*time.Second {
			t.Errorf("they are idle for %v", idles)
		}
		time.Sleep(time.Second)
		if st := tracker.Stats(); st.Shed != 1 || st.Evicted != 1 {
			t.Errorf("%d were shed and %d evicted, want alice and carol", st.Shed, st.Evicted)
		}
		bob.get(5)
	})
}
