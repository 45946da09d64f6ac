package idlehttp

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/idle"
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

// part is the beginning of a DATA frame of 16384 bytes.
func part(flags byte, stream uint32) string {
	return "\x00\x40\x00" + frame(typeData, flags, stream, "x")[3:]
}

func hintsAndReads(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Link", "</style.css>; rel=preload")
	w.WriteHeader(http.StatusEarlyHints)
	reads(w, r)
}

func hintsPushesAndReads(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		return // it is pushed
	}
	w.Header().Set("Link", "</style.css>; rel=preload")
	w.WriteHeader(http.StatusEarlyHints)
	w.(http.Pusher).Push("/style.css", nil)
	w.WriteHeader(http.StatusEarlyHints)
	reads(w, r)
}

// Clients that keep the server waiting by frames, whatever else they send, have their
// stream reset, or their connection closed if that is what is late.
func TestHTTP2SlowClients(t *testing.T) {
	const limit = 20 * time.Second
	nothing := ping + frame(typePing, 1, 0, "12345678") + frame(typeSettings, 0, 0, "") + frame(typePriority, 0, 1, "\x00\x00\x00\x00\x00") +
		frame(typeWindowUpdate, 0, 0, number(1)) + frame(99, 0, 0, "any")
	get, post := frame(typeHeaders, endHeaders|endStream, 1, getBlock), frame(typeHeaders, endHeaders, 1, postBlock)
	const stream, streams = "request stream", "streams"
	for name, test := range map[string]struct {
		window         uint32
		handler        http.HandlerFunc
		sends, again   string // the latter each second
		phase, setting string
	}{
		"a silent stream": {defaultWindow, waits, get, "", streams, "StreamTimeout"},
		"no stream":       {defaultWindow, nil, "", nothing, "handshake", "HandshakeTimeout"},
		"no stream again": {defaultWindow, answers, get, nothing, "keep-alive", "KeepAliveTimeout"},

		// Frames are the server's, so a header that isn't complete is nothing yet.
		"header in frames":             {defaultWindow, nil, frame(typeHeaders, 0, 3, "\x82"), frame(typeContinuation, 0, 3, ""), "handshake", "HandshakeTimeout"},
		"header in bytes":              {defaultWindow, nil, frame(typeHeaders, endHeaders, 3, strings.Repeat("\x82", 250))[:12], "\x82", "handshake", "HandshakeTimeout"},
		"header stops":                 {defaultWindow, nil, frame(typeHeaders, endHeaders, 3, getBlock)[:9], "", "handshake", "HandshakeTimeout"},
		"header stops after a request": {defaultWindow, answers, get + frame(typeHeaders, endHeaders, 3, getBlock)[:9], "", "keep-alive", "KeepAliveTimeout"},
		"header stops beside a stream": {defaultWindow, waits, get + frame(typeHeaders, endHeaders, 3, getBlock)[:9], "", streams, "StreamTimeout"},

		"window shut":                   {noWindow, writes, get, ping, stream, "WriteTimeout"},
		"window shut after the handler": {noWindow, answers, get, ping, stream, "WriteTimeout"},
		"window opens slowly":           {noWindow, writes, get, frame(typeWindowUpdate, 0, 1, number(1)), stream, "WriteTimeout"},
		"connection's opens slowly":     {1 << 20, writes, get, frame(typeWindowUpdate, 0, 0, number(1)), stream, "WriteTimeout"},
		"no body":                       {defaultWindow, reads, post, ping, stream, "BodyTimeout"},
		"no body after early hints":     {defaultWindow, hintsAndReads, post, ping, stream, "BodyTimeout"},
		"no body after hints and push":  {defaultWindow, hintsPushesAndReads, post, "", stream, "BodyTimeout"},
		"empty parts of a body":         {defaultWindow, reads, post, frame(typeData, 0, 1, ""), stream, "BodyTimeout"},
		"a body of padding":             {defaultWindow, reads, post, strings.Repeat(frame(typeData, padded, 1, "\x63"+strings.Repeat("x", 99)), 5), stream, "BodyTimeout"},
		"a body too slow":               {defaultWindow, reads, post, frame(typeData, 0, 1, "x"), stream, "BodyRate"},
		"within a frame":                {defaultWindow, reads, post + part(0, 1), "x", stream, "BodyTimeout"},
	} {
		t.Run(name, func(t *testing.T) {
			limits := Timeouts{HandshakeTimeout: limit, BodyTimeout: limit, WriteTimeout: limit, KeepAliveTimeout: limit, StreamTimeout: 2 * limit,
				BodyRate:  idle.Rate{BytesPerSecond: 1000, Grace: limit + time.Second},
				WriteRate: idle.Rate{BytesPerSecond: 1 << 20, Grace: limit + time.Second}} // what the first window has taken pays in advance
			virtual(t, limits, test.window, func(w http.ResponseWriter, r *http.Request) { test.handler(w, r) }, func(t *testing.T, f framed) {
				begun := f.Send(test.sends)
				f.again(test.again, time.Second)
				took := func(at time.Time) {
					if d := at.Sub(begun); d < limit || d > 3*limit {
						t.Errorf("it took %v", d)
					}
				}
				if test.phase == stream {
					took(f.wantReset(1))
					f.site.wantReset(1)
					f.Close()
				} else {
					took(f.Drain())
				}
				if st := f.site.Settled(); st.Phases[test.phase] != 1 || st.Limits[test.setting] == 0 {
					t.Errorf("timed out in %v, by %v", st.Phases, st.Limits)
				}
			})
		})
	}
}
