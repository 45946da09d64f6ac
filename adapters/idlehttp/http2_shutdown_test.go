package idlehttp

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

// A server that shuts down says so, and its streams end in good order. A client that says
// hello meanwhile is served or sent away, and does not hold up the shutdown.
func TestHTTP2Shutdown(t *testing.T) {
	inBubbles(t, func(t *testing.T, secure bool) {
		begun, finish := make(chan bool, 1), make(chan bool)
		s := startInMemory(t, secure, all(time.Hour), func(w http.ResponseWriter, r *http.Request) {
			begun <- true
			<-finish
			io.WriteString(w, "done")
		})
		f, late := s.dial2(), s.Dial("h2")
		f.open(1, getBlock, endStream)
		<-begun
		down := make(chan error, 1)
		go func() { down <- s.server.Shutdown(context.Background()) }()
		f.wantGoAway()
		late.Send(hello)
		late.Close()
		f.open(3, getBlock, endStream) // it is ignored
		finish <- true
		f.wantEnd(1)
		f.Drain()
		httpsuite.NoError(t, <-down)
		s.wantReset(0)
	})
}

// TestHTTP2LastGoAway: a connection without a stream ends with a GOAWAY, by which its client knows that a
// request that crosses it isn't executed.
func TestHTTP2LastGoAway(t *testing.T) {
	for name, end := range map[string]func(s *site) error{
		"KeepAliveTimeout": func(*site) error { return nil },
		"Drain":            func(s *site) error { return s.Setup.Drain(context.Background(), idle.Drain{}) },
		"Evict": func(s *site) error {
			return s.Tracker().Visit(context.Background(), func(i idle.Info) { i.EndIfIdle("asked to") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, Timeouts{}, defaultWindow, answers, func(t *testing.T, f framed) {
				f.get(1)
				time.Sleep(time.Minute)
				begun := f.get(3)
				time.Sleep(time.Second)
				done := make(chan error, 1)
				go func() { done <- end(f.site) }()
				f.wantFrame("GOAWAY", func(g got) bool {
					return g.kind == typeGoAway && g.code(0) <= 3 && g.code(4) == codeNone // a Shutdown of the server may come first
				})
				f.Drain()
				httpsuite.NoError(t, <-done)
				if name == "KeepAliveTimeout" {
					wantIn(t, begun, 75*time.Second)
					f.site.WantOnly(1, "keep-alive", idle.ReasonPhase)
				}
			})
		})
	}
}

// A request that arrives when the end of its connection has been decided is not executed,
// and the last GOAWAY says so.
func TestHTTP2LateRequest(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) { // each with variables of its own
		var client atomic.Pointer[framed]
		var requests atomic.Int64
		limits := Timeouts{Idle: idle.Options{OnEnds: func([]idle.End) {}, Label: func(any) string { // is called before OnEnd
			if f := client.Swap(nil); f != nil {
				f.open(3, getBlock, endStream)
				synctest.Wait() // for who might read it
			}
			return ""
		}}}
		virtually(t, secure, limits, defaultWindow, func(http.ResponseWriter, *http.Request) { requests.Add(1) }, func(t *testing.T, f framed) {
			f.get(1)
			client.Store(&f)
			f.wantGoAway()
			f.Drain()
			if n := requests.Load(); n != 1 {
				t.Errorf("%d requests were executed, want 1", n)
			}
		})
	})
}

// TestHTTP2DrainAsksByGoAway: a connection that is used during a drain gets a GOAWAY with its response. It says
// which requests are served.
func TestHTTP2DrainAsksByGoAway(t *testing.T) {
	virtual(t, Timeouts{}, defaultWindow, answers, func(t *testing.T, f framed) {
		f.get(1)
		down := make(chan error, 1)
		go func() { down <- f.site.Setup.Drain(context.Background(), idle.Drain{CloseDelay: 5 * time.Second}) }()
		httpsuite.Eventually(t, "it is told", func() bool { return f.site.Setup.Told() == 1 })
		f.open(3, getBlock, endStream)
		f.open(5, getBlock, endStream) // crosses the GOAWAY, perhaps
		ended, last := map[uint32]bool{}, []uint32{}
		for g, err := f.read(); err == nil; g, err = f.read() {
			switch {
			case g.kind == typeGoAway:
				last = append(last, g.code(0))
			case g.kind <= typeHeaders && g.flags&endStream != 0:
				ended[g.stream] = true
			}
		}
		if len(last) != 1 || !ended[3] || ended[5] != (last[0] == 5) {
			t.Errorf("the streams %v ended, and the GOAWAYs were about %v", ended, last)
		}
		httpsuite.NoError(t, <-down)
	})
}
