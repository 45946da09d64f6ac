package idlehttp

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

// Streams that are open follow SetTimeouts, also if streams had no limits before.
func TestHTTP2SetTimeoutsOfStreams(t *testing.T) {
	const limit = 300 * ms
	for name, test := range map[string]struct {
		window  uint32
		block   string
		flags   byte
		setting string
		reason  idle.Reason
	}{
		"no body":     {defaultWindow, postBlock, 0, "BodyTimeout", idle.ReasonRead},
		"body rate":   {defaultWindow, postBlock, 0, "BodyRate", idle.ReasonMinReadRate},
		"window shut": {noWindow, getBlock, endStream, "WriteTimeout", idle.ReasonWrite},
	} {
		for before, first := range map[string]Timeouts{"off": httpsuite.Off(), "on": httpsuite.Only(4*limit, test.setting)} {
			t.Run(name+", before "+before, func(t *testing.T) {
				inBubbles(t, func(t *testing.T, secure bool) {
					first := first
					first.StreamTimeout, first.KeepAliveTimeout = patience, patience
					ended := make(chan error, 1)
					s := startInMemory(t, secure, first, func(w http.ResponseWriter, r *http.Request) {
						_, err := io.Copy(io.Discard, r.Body)
						if err == nil {
							_, err = w.Write(httpsuite.Large)
						}
						ended <- err
					})
					f := s.dialFramed(test.window)
					begun := f.open(1, test.block, test.flags)
					to := httpsuite.Only(time.Minute, test.setting)
					if err := s.SetTimeouts(to); err != nil {
						t.Fatal(err)
					}
					time.Sleep(5 * limit)
					if st := s.Stats(); st.Phases["request stream"] > 0 {
						t.Fatalf("reset by %v", st.Limits)
					}
					to = httpsuite.Only(7*limit, test.setting)
					if err := s.SetTimeouts(to); err != nil {
						t.Fatal(err)
					}
					httpsuite.NotBefore(t, f.wantReset(1), begun, 7*limit)
					if err := httpsuite.Receive(t, ended); err == nil {
						t.Error("all has been read and written")
					}
					s.wantReset(1)
					if n := s.Stats().Limits[test.setting]; n != 1 {
						t.Errorf("%d by %s", n, test.setting)
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
				if err := f.site.SetTimeouts(httpsuite.Only(limit, setting)); err != nil {
					t.Fatal(err)
				}
				took := f.Drain().Sub(begun)
				if took < limit || took > limit+5*time.Second {
					t.Errorf("it took %v", took)
				}
				f.site.WantOnly(1, test.phase, test.reason)
			})
		})
	}
}

// One stream has limits of its own: an upload of an hour beside requests that have ten
// seconds, on one connection. It keeps them if the listener's change.
func TestHTTP2SetLimits(t *testing.T) {
	for name, wrap := range map[string]func(http.ResponseWriter, *http.Request){
		"a plain body": func(http.ResponseWriter, *http.Request) {},
		"a wrapped body": func(w http.ResponseWriter, r *http.Request) {
			r.Body = io.NopCloser(http.MaxBytesReader(w, r.Body, 1<<30))
		},
	} {
		t.Run(name, func(t *testing.T) {
			limits := Timeouts{BodyTimeout: 10 * time.Second}
			virtual(t, limits, defaultWindow, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("own") != "" {
					wrap(w, r)
					own := RequestLimits{BodyTimeout: 2 * time.Minute, BodyRate: idle.Rate{BytesPerSecond: 1, Grace: 2 * time.Minute}}
					if err := SetLimits(r, own); err != nil {
						t.Error(err)
					}
				}
				io.Copy(io.Discard, r.Body)
			}, func(t *testing.T, f framed) {
				const upload = 1
				f.open(upload, postBlock+"\x00\x03own\x01x", 0)
				next := uint32(3)
				for minute := range 60 {
					time.Sleep(time.Minute)
					f.data(upload, 150, 0)
					if minute == 30 {
						if err := f.site.SetTimeouts(Timeouts{BodyTimeout: time.Second}); err != nil {
							t.Error(err)
						}
					}
					if minute%10 == 0 {
						f.open(next, postBlock, 0)
						f.wantReset(next)
						next += 2
					}
				}
				f.data(upload, 1, endStream)
				f.wantEnd(upload)
			})
		})
	}
}

// An upload of an hour at 50 kB/s, with limits of its own, shares a connection with requests of an
// API, which have ten seconds in all. Those that take longer are answered too, by 503, and reset because of their bodies.
func TestHTTP2HourOfUpload(t *testing.T) {
	limits := Timeouts{BodyTimeout: 10 * time.Second, HandlerTimeout: 10 * time.Second}
	virtual(t, limits, defaultWindow, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("own") != "" {
			own := RequestLimits{BodyTimeout: time.Minute, BodyRate: idle.Rate{BytesPerSecond: 40_000, Grace: time.Minute}, HandlerTimeout: 2 * time.Hour}
			if err := SetLimits(r, own); err != nil {
				t.Error(err)
			}
		}
		io.Copy(io.Discard, r.Body)
	}, func(t *testing.T, f framed) {
		const upload = 1
		resets, ends := make(chan uint32, 100), make(chan uint32, 100)
		go func() {
			for {
				g, err := f.read()
				switch {
				case err != nil:
					close(resets)
					return
				case g.kind == typeReset:
					resets <- g.stream
				case g.kind <= typeHeaders && g.flags&endStream != 0:
					ends <- g.stream
				}
			}
		}()
		f.open(upload, postBlock+"\x00\x03own\x01x", 0)
		whole := "\x00\x40\x00" + frame(typeData, 0, upload, "")[3:] + strings.Repeat("x", 1<<14)
		slow := map[uint32]bool{}
		next := uint32(3)
		for second := range 3600 {
			time.Sleep(time.Second)
			for range 3 {
				f.Send(whole)
			}
			if second%600 == 0 {
				f.open(next, getBlock, endStream)
				f.open(next+2, postBlock, 0)
				slow[next+2] = true
				next += 4
			}
		}
		f.data(upload, 1, endStream)
		time.Sleep(time.Second)
		if len(resets) != len(slow) || len(ends) != 2*len(slow)+1 {
			t.Errorf("%d were reset, want %d; %d were answered, want %d", len(resets), len(slow), len(ends), 2*len(slow)+1)
		}
		for range len(resets) {
			if id := <-resets; !slow[id] {
				t.Errorf("stream %d was reset", id)
			}
		}
		f.site.wantReset(uint64(len(slow)))
	})
}

// A stream is cut by limits of its own, which count from the call, and name their settings.
func TestHTTP2SetLimitsCut(t *testing.T) {
	const limit = 20 * time.Second
	for setting, test := range map[string]struct {
		own     RequestLimits
		window  uint32
		block   string
		flags   byte
		handler http.HandlerFunc
	}{
		"BodyTimeout":    {RequestLimits{BodyTimeout: limit}, defaultWindow, postBlock, 0, reads},
		"BodyRate":       {RequestLimits{BodyRate: idle.Rate{BytesPerSecond: 100, Grace: limit}}, defaultWindow, postBlock, 0, reads},
		"WriteTimeout":   {RequestLimits{WriteTimeout: limit}, noWindow, getBlock, endStream, writes},
		"WriteRate":      {RequestLimits{WriteRate: idle.Rate{BytesPerSecond: 100, Grace: limit}}, noWindow, getBlock, endStream, writes},
		"HandlerTimeout": {RequestLimits{HandlerTimeout: limit}, defaultWindow, getBlock, endStream, waits},
	} {
		t.Run(setting, func(t *testing.T) {
			off := httpsuite.Off()
			virtual(t, off, test.window, func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(time.Minute)
				if err := SetLimits(r, test.own); err != nil {
					t.Error(err)
				}
				test.handler(w, r)
			}, func(t *testing.T, f framed) {
				begun := f.open(1, test.block, test.flags)
				if took := f.wantReset(1).Sub(begun); took < time.Minute+limit || took > time.Minute+limit+limit/8+2*time.Second { // an eighth of a Grace comes before it
					t.Errorf("it took %v", took)
				}
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
			if err := f.site.SetTimeouts(limits); err != nil {
				t.Fatal(err)
			}
			f.open(uint32(1+2*i), getBlock, endStream)
			time.Sleep(20 * time.Second)
			if n := f.site.Stats().Limits["HandlerTimeout"]; n != uint64(min(i, 1)) {
				t.Errorf("with HandlerTimeout of %v, %d streams of %d were reset", total, n, i+1)
			}
		}
	})
}

// HandlerTimeout limits each stream from its own beginning, whatever it does. If its handler has answered nothing, it's answered by 503.
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
				for _, stream := range []struct {
					id    uint32
					begun time.Time
				}{{1, first}, {3, second}} {
					if took := test.want(f, stream.id).Sub(stream.begun); took < total || took > total+2*time.Second {
						t.Errorf("stream %d ends after %v", stream.id, took)
					}
				}
				if n := f.site.Stats().Limits["HandlerTimeout"]; n != 2 {
					t.Errorf("%v", f.site.Stats().Limits)
				}
			})
		})
	}
}
