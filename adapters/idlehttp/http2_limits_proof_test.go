//go:build proof

package idlehttp

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

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
	nothing := ping + frame(typeSettings, 0, 0, "") + frame(typePriority, 0, 1, "\x00\x00\x00\x00\x00") +
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

// A client that takes nothing any more, though it has opened its windows, is cut by the
// write timeout, long before that of streams.
func TestHTTP2DeadClient(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		limits := httpsuite.Only(400*ms, "WriteTimeout")
		ended := make(chan error, 1)
		s := start2(t, secure, limits, func(w http.ResponseWriter, r *http.Request) {
			_, err := w.Write(bytes.Repeat(httpsuite.Large, 2))
			ended <- err
		})
		f := s.dialFramed(1 << 30)
		f.Narrow(16 << 10)
		f.update(0, 1<<30)
		begun := f.open(1, getBlock, endStream)
		if err := httpsuite.Receive(t, ended); err == nil {
			t.Error("all has been written")
		}
		httpsuite.NotBefore(t, time.Now(), begun, limits.WriteTimeout)
		s.WantOnly(1, "streams", idle.ReasonWrite)
	})
}
