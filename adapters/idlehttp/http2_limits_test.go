package idlehttp

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

// part is the beginning of a DATA frame of 16384 bytes.
func part(flags byte, stream uint32) string {
	return "\x00\x40\x00" + frame(typeData, flags, stream, "x")[3:]
}

// Handlers of the tests in virtual time.

func reads(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }
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
func writes(w http.ResponseWriter, r *http.Request) { w.Write(httpsuite.Large) }
func waits(_ http.ResponseWriter, r *http.Request)  { <-r.Context().Done() }

// answers writes a small response, the end of which is written before net/http tells that
// the connection is idle.
func answers(w http.ResponseWriter, _ *http.Request) {
	http.NewResponseController(w).Flush()
	time.Sleep(ms)
	w.Write(make([]byte, 4096))
}

// Clients that keep the server waiting by frames, whatever else they send, have their
// stream reset, or their connection closed if that is what is late.
func TestHTTP2SlowClients(t *testing.T) {
	const limit = 20 * time.Second
	nothing := ping + frame(typeSettings, 0, 0, "") + frame(typePriority, 0, 1, "\x00\x00\x00\x00\x00") +
		frame(typeWindowUpdate, 0, 0, number(1)) + frame(99, 0, 0, "any")
	get, post := frame(typeHeaders, endHeaders|endStream, 1, getBlock), frame(typeHeaders, endHeaders, 1, postBlock)
	const header, stream, streams = "request header", "request stream", "streams"
	for name, test := range map[string]struct {
		window         uint32
		handler        http.HandlerFunc
		sends, again   string // the latter each second
		phase, setting string
	}{
		"a silent stream": {defaultWindow, waits, get, "", streams, "StreamTimeout"},
		"no stream":       {defaultWindow, nil, "", nothing, "keep-alive", "KeepAliveTimeout"},

		"header in frames":                  {defaultWindow, nil, frame(typeHeaders, 0, 3, "\x82"), frame(typeContinuation, 0, 3, ""), header, "HeaderTimeout"},
		"header in bytes":                   {defaultWindow, nil, frame(typeHeaders, endHeaders, 3, strings.Repeat("\x82", 250))[:12], "\x82", header, "HeaderTimeout"},
		"header stops":                      {defaultWindow, nil, frame(typeHeaders, endHeaders, 3, getBlock)[:9], "", header, "HeaderTimeout"},
		"header in frames, beside a stream": {defaultWindow, waits, get + frame(typeHeaders, 0, 3, "\x82"), frame(typeContinuation, 0, 3, ""), header, "HeaderTimeout"},
		"header in bytes, beside a stream":  {defaultWindow, waits, get + frame(typeHeaders, endHeaders, 3, strings.Repeat("\x82", 250))[:12], "\x82", header, "HeaderTimeout"},
		"header stops, beside a stream":     {defaultWindow, waits, get + frame(typeHeaders, endHeaders, 3, getBlock)[:9], "", header, "HeaderTimeout"},

		"window shut":                   {noWindow, writes, get, ping, stream, "WriteTimeout"},
		"window shut after the handler": {noWindow, answers, get, ping, stream, "WriteTimeout"},
		"window opens slowly":           {noWindow, writes, get, frame(typeWindowUpdate, 0, 1, number(1)), stream, "WriteRate"},
		"connection's opens slowly":     {1 << 20, writes, get, frame(typeWindowUpdate, 0, 0, number(1)), stream, "WriteRate"},
		"no body":                       {defaultWindow, reads, post, ping, stream, "BodyTimeout"},
		"no body after early hints":     {defaultWindow, hintsAndReads, post, ping, stream, "BodyTimeout"},
		"no body after hints and push":  {defaultWindow, hintsPushesAndReads, post, "", stream, "BodyTimeout"},
		"empty parts of a body":         {defaultWindow, reads, post, frame(typeData, 0, 1, ""), stream, "BodyTimeout"},
		"a body of padding":             {defaultWindow, reads, post, strings.Repeat(frame(typeData, padded, 1, "\x63"+strings.Repeat("x", 99)), 20), stream, "BodyTimeout"},
		"a body too slow":               {defaultWindow, reads, post, frame(typeData, 0, 1, "x"), stream, "BodyRate"},
		// The reset has to wait for the end of a frame. If that does not come, the connection is ended.
		"within a frame": {defaultWindow, reads, post + part(0, 1), "x", streams, "BodyRate"},
	} {
		t.Run(name, func(t *testing.T) {
			limits := Timeouts{HeaderTimeout: limit, BodyTimeout: limit, WriteTimeout: limit, KeepAliveTimeout: limit, StreamTimeout: 2 * limit,
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

// A connection without streams is closed when the keep-alive timeout has passed since the
// last response, and its client is told so. Frames that do not open a stream keep nothing.
func TestHTTP2KeepAlive(t *testing.T) {
	virtual(t, Timeouts{}, defaultWindow, answers, func(t *testing.T, f framed) {
		for _, stream := range []uint32{1, 3} {
			time.Sleep(time.Minute)
			f.get(stream)
		}
		last := time.Now()
		f.again(ping, 10*time.Second)
		f.wantGoAway()
		if took := f.Drain().Sub(last); took < 75*time.Second || took > 77*time.Second {
			t.Errorf("it took %v", took)
		}
		f.site.WantOnly(1, "keep-alive", idle.ReasonReadTotal)
	})
}

// OnTimeout is asked about streams as well. One that is kept has its limit anew.
func TestHTTP2OnTimeout(t *testing.T) {
	var mu sync.Mutex
	asked := map[net.Conn]int{}
	limits := Timeouts{WriteTimeout: time.Second, OnTimeout: func(c net.Conn, err *idle.TimeoutError) bool {
		mu.Lock()
		defer mu.Unlock()
		if c.RemoteAddr() == nil || err.Phase != "request stream" || err.Reason != idle.ReasonWrite || err.Setting != "WriteTimeout" {
			t.Errorf("asked about %v: %v", c.RemoteAddr(), err)
		}
		asked[c]++
		return asked[c] < 3
	}}
	virtual(t, limits, noWindow, writes, func(t *testing.T, f framed) {
		begun := f.open(1, getBlock, endStream)
		httpsuite.NotBefore(t, f.wantReset(1), begun, 3*limits.WriteTimeout)
		f.site.wantReset(1)
	})
}

// TestHTTP2ConnectionsAreWhatEnds: a connection with streams that end, and one that is reset,
// is in OnEnds once. The tracker of streams counts the reset.
func TestHTTP2ConnectionsAreWhatEnds(t *testing.T) {
	var mu sync.Mutex
	var ends []idle.End
	limits := Timeouts{WriteTimeout: time.Second, Idle: idle.Options{OnEnds: func(all []idle.End) {
		mu.Lock()
		defer mu.Unlock()
		ends = append(ends, all...)
	}}}
	answer := func(w http.ResponseWriter, r *http.Request) { w.Write(make([]byte, 10)) }
	virtual(t, limits, noWindow, answer, func(t *testing.T, f framed) {
		for _, stream := range []uint32{1, 3, 5} {
			f.open(stream, getBlock, endStream)
			f.wantReset(stream)
		}
		f.site.wantReset(3)
		if st := f.site.Listener.(*Listener).StreamTracker().Stats(); st.Tracked < 3 || st.TimedOut[idle.ReasonWrite] != 3 {
			t.Errorf("streams: %+v", st)
		}
		f.Close()
		f.site.Settled()
		time.Sleep(time.Second)
		synctest.Wait()
	})
	t.Cleanup(func() { // when both are over, with TLS and without, as they run side by side
		if len(ends) != 2 || slices.ContainsFunc(ends, func(e idle.End) bool { return e.Label == "" }) {
			t.Errorf("%+v", ends)
		}
	})
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
