//go:build proof

package idlehttp

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Clients that do what they may are served, by the default timeouts, for much
// longer than these are, also while other streams of theirs are reset.
func TestHTTP2HonestClients(t *testing.T) {
	flush := func(w http.ResponseWriter) { http.NewResponseController(w).Flush() }
	for name, test := range map[string]struct {
		window  uint32
		handler http.HandlerFunc
		client  func(t *testing.T, f framed)
		resets  uint64
	}{
		"silent events": {defaultWindow, func(w http.ResponseWriter, r *http.Request) {
			flush(w)
			time.Sleep(20 * time.Minute)
			io.WriteString(w, "event")
		}, func(t *testing.T, f framed) {
			f.open(1, getBlock, endStream)
			for range 19 {
				time.Sleep(time.Minute)
				f.Send(ping)
			}
			f.wantEnd(1)
		}, 0},
		"long polling": {defaultWindow, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(299 * time.Second)
			io.WriteString(w, "news")
		}, func(t *testing.T, f framed) {
			for i := range uint32(5) {
				f.get(1 + 2*i)
			}
		}, 0},
		"long polling without a window": {noWindow, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(299 * time.Second)
			io.WriteString(w, "news")
		}, func(t *testing.T, f framed) {
			f.open(1, getBlock, endStream)
			f.wantFrame("a header", func(g got) bool { return g.kind == typeHeaders })
			f.update(1, 100)
			f.wantEnd(1)
		}, 0},
		"upload with pauses": {defaultWindow, echo, func(t *testing.T, f framed) {
			f.open(1, postBlock, 0)
			for range 20 {
				f.data(1, 2000, 0)
				time.Sleep(8 * time.Second)
			}
			f.data(1, 0, endStream)
			f.wantEnd(1)
		}, 0},
		"conversation": {defaultWindow, func(w http.ResponseWriter, r *http.Request) {
			flush(w)
			for b := make([]byte, 100); ; flush(w) {
				n, err := r.Body.Read(b)
				if w.Write(b[:n]); err != nil {
					return
				}
			}
		}, func(t *testing.T, f framed) {
			f.open(1, postBlock, 0)
			for range 10 {
				time.Sleep(4 * time.Minute)
				f.data(1, 10, 0)
				f.wantFrame("an answer", func(g got) bool { return g.kind == typeData && len(g.payload) == 10 })
			}
			f.data(1, 0, endStream)
			f.wantEnd(1)
		}, 0},
		"slow download": {17_000, func(w http.ResponseWriter, r *http.Request) { w.Write(make([]byte, 60_000)) },
			func(t *testing.T, f framed) {
				f.open(1, getBlock, endStream)
				f.again(frame(typeWindowUpdate, 0, 1, number(17_000)), 25*time.Second)
				f.wantEnd(1)
			}, 0},
		"silent beside a slow download": {1 << 20, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == "POST" {
				flush(w)
				time.Sleep(4 * time.Minute)
				return
			}
			w.Write(make([]byte, defaultWindow+60_000))
		}, func(t *testing.T, f framed) {
			f.open(1, postBlock, endStream)
			f.open(3, getBlock, endStream)
			f.again(frame(typeWindowUpdate, 0, 0, number(17_000)), 25*time.Second)
			f.wantEnd(3)
			f.wantEnd(1)
		}, 0},
		// Its streams had limits, which are gone with it.
		"gone": {noWindow, writes, func(t *testing.T, f framed) {
			f.open(1, getBlock, endStream)
			synctest.Wait() // until the response waits
			f.Close()
			time.Sleep(time.Hour)
		}, 0},
		"body and response beside a reset": {noWindow, func(w http.ResponseWriter, r *http.Request) {
			if n, _ := io.Copy(io.Discard, r.Body); n == 0 {
				if _, err := w.Write(make([]byte, 10_000)); err == nil {
					time.Sleep(time.Minute)
				}
			}
		}, func(t *testing.T, f framed) {
			f.open(1, getBlock, endStream) // it takes nothing
			f.open(3, getBlock, endStream)
			f.update(3, 20_000)
			f.open(5, postBlock, 0)
			for range 15 {
				f.data(5, 1000, 0)
				time.Sleep(3 * time.Second)
			}
			f.data(5, 0, endStream)
			f.wantReset(1)
			f.wantEnd(5)
			f.wantEnd(3)
		}, 1},
		// A reset that has to wait for a frame of another stream lets that take its time.
		"slow frame beside a reset": {noWindow, func(w http.ResponseWriter, r *http.Request) {
			if n, _ := io.Copy(io.Discard, r.Body); n == 0 {
				w.Write(make([]byte, 10_000))
			}
		}, func(t *testing.T, f framed) {
			f.open(1, getBlock, endStream) // whose response does not get through
			f.open(3, postBlock, 0)
			f.Send(part(endStream, 3)[:9])
			for range 1 << 14 / 512 {
				time.Sleep(2 * time.Second)
				f.Send(strings.Repeat("x", 512))
			}
			for reset, ended := false, false; !reset || !ended; {
				g, err := f.read()
				if err != nil {
					t.Fatalf("reset: %v, the other one ended: %v, then %v", reset, ended, err)
				}
				reset = reset || g.kind == typeReset && g.stream == 1
				ended = ended || g.kind <= typeHeaders && g.stream == 3 && g.flags&endStream != 0
			}
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, Timeouts{}, test.window, test.handler, func(t *testing.T, f framed) {
				test.client(t, f)
				f.site.wantReset(test.resets)
			})
		})
	}
}
