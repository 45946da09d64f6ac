package idlehttp

import (
	"bufio"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idletest"
	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle/pressure"
)

// inBubble runs a test of a server in virtual time. The client dials by pipes.
func inBubble(t *testing.T, limits Timeouts, h http.HandlerFunc, test func(t *testing.T, l *Listener, pipes *idletest.Listener)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &http.Server{Handler: h}
		pipes := idletest.NewListener()
		l, err := Wrap(s, pipes, limits)
		if err != nil {
			t.Fatal(err)
		}
		go s.Serve(l)
		defer s.Close()
		test(t, l, pipes)
	})
}

// atFull is a pressure that is always full.
var atFull = pressure.Config{Read: func() (float64, error) { return 1, nil }}

// restOff are a limit at rest: none, or a long one.
var restOff = map[string]time.Duration{"off at rest": 0, "on at rest": time.Minute}

// TestPressureOnHandlers has a HandlerTimeout that may apply under pressure only.
func TestPressureOnHandlers(t *testing.T) {
	for name, rest := range restOff {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Timeouts{HandlerTimeout: rest}, func(w http.ResponseWriter, r *http.Request) {
				select {
				case <-r.Context().Done():
				case <-time.After(20 * time.Second):
				}
			}, func(t *testing.T, l *Listener, pipes *idletest.Listener) {
				f, err := l.FollowPressure(atFull, Timeouts{HandlerTimeout: 2 * time.Second})
				if err != nil {
					t.Fatal(err)
				}
				defer f.Stop()
				nc, err := pipes.Dial()
				if err != nil {
					t.Fatal(err)
				}
				defer nc.Close()
				io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
				if res, err := http.ReadResponse(bufio.NewReader(nc), nil); err != nil || res.StatusCode != http.StatusServiceUnavailable {
					t.Errorf("%v, %v", res, err)
				}
			})
		})
	}
}

// TestPressureOnStreamTotal is the same with StreamTotal, alone and with another limit.
func TestPressureOnStreamTotal(t *testing.T) {
	for name, rest := range restOff {
		for other, full := range map[string]Timeouts{"alone": {}, "with another": {StreamTimeout: time.Minute}} {
			t.Run(name+", "+other, func(t *testing.T) {
				limits := httpsuite.Off()
				limits.KeepAliveTimeout = time.Minute
				if rest > 0 {
					limits.StreamTotal = rest
				}
				virtual(t, limits, defaultWindow, func(w http.ResponseWriter, r *http.Request) {
					select {
					case <-r.Context().Done():
					case <-time.After(30 * time.Second):
					}
				}, func(t *testing.T, f framed) {
					full := full
					full.StreamTotal = 2 * time.Second
					l := f.site.Listener.(*Listener)
					p, err := l.FollowPressure(atFull, full)
					if err != nil {
						t.Fatal(err)
					}
					if _, err := l.FollowPressure(atFull, full); err == nil {
						t.Error("two pressures are followed")
					}
					f.open(1, getBlock, endStream)
					time.Sleep(20 * time.Second)
					if n := f.site.Stats().Limits["StreamTotal"]; n != 1 {
						t.Errorf("at full pressure, %d streams of 1 were reset: %v", n, f.site.Stats().Limits)
					}
					p.Stop()
					f.open(3, getBlock, endStream)
					time.Sleep(20 * time.Second)
					if n := f.site.Stats().Limits["StreamTotal"]; n != 1 {
						t.Errorf("at rest, %d more", n-1)
					}
				})
			})
		}
	}
}
