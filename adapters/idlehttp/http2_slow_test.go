package idlehttp

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/idle"
)

// slow has short limits, except for silent streams.
func slow(limit time.Duration) Timeouts {
	t := all(limit)
	t.HandshakeTimeout, t.StreamTimeout = patience, patience
	t.BodyRate = idle.Rate{BytesPerSecond: 1000, Grace: limit}
	t.WriteRate = t.BodyRate
	return t
}

// fails is a handler that reads a body and writes a large one, and tells how that
// ended.
func fails() (http.HandlerFunc, chan error) {
	ended := make(chan error, 10)
	return func(w http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		if err == nil {
			_, err = w.Write(httpsuite.Large)
		}
		<-r.Context().Done()
		ended <- err
	}, ended
}

// A client that has no stream open is not kept by pings, nor by anything else.
func TestHTTP2PingsKeepNothing(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		limits := slow(400 * ms)
		for name, text := range map[string]string{
			"PING":          ping,
			"SETTINGS":      frame(typeSettings, 0, 0, ""),
			"PRIORITY":      frame(typePriority, 0, 1, "\x00\x00\x00\x00\x00"),
			"WINDOW_UPDATE": frame(typeWindowUpdate, 0, 0, number(1)),
			"unknown":       frame(99, 0, 0, "any"),
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := start2(t, secure, limits, unreachable(t))
				f := s.dialFramed(defaultWindow)
				f.again(t, text, 50*ms)
				httpsuite.NotBefore(t, f.Drain(), f.Begun, limits.KeepAliveTimeout)
				s.WantOnly(1, "keep-alive", idle.ReasonReadTotal)
			})
		}
	})
}

// A client that does not let a response through, or does not send a body, has its stream
// reset, whatever else it sends. Neither are bytes now and then enough.
func TestHTTP2SlowStreams(t *testing.T) {
	for name, test := range map[string]struct {
		window uint32
		block  string // of the request
		again  string // what the client goes on with
		by     []string
	}{
		"window shut":               {noWindow, getBlock, ping, []string{"WriteTimeout", "WriteRate"}},
		"window opens slowly":       {noWindow, getBlock, frame(typeWindowUpdate, 0, 1, number(1)), []string{"WriteRate"}},
		"connection's opens slowly": {1 << 20, getBlock, frame(typeWindowUpdate, 0, 0, number(1)), []string{"WriteRate"}},
		"no body":                   {defaultWindow, postBlock, ping, []string{"BodyTimeout", "BodyRate"}},
		"empty parts of a body":     {defaultWindow, postBlock, frame(typeData, 0, 1, ""), []string{"BodyTimeout", "BodyRate"}},
		"a body too slow":           {defaultWindow, postBlock, frame(typeData, 0, 1, "x"), []string{"BodyTimeout", "BodyRate"}},
	} {
		t.Run(name, func(t *testing.T) {
			httpsuite.Both(t, func(t *testing.T, secure bool) {
				limits := slow(600 * ms)
				limits.KeepAliveTimeout = patience
				limits.WriteRate.BytesPerSecond = 1 << 20 // what the first window has taken pays in advance
				h, ended := fails()
				s := start2(t, secure, limits, h)
				f := s.dialFramed(test.window)
				flags := byte(endStream)
				if test.block == postBlock {
					flags = 0
				}
				begun := f.open(1, test.block, flags)
				f.again(t, test.again, 50*ms)
				httpsuite.NotBefore(t, f.wantReset(1), begun, limits.WriteTimeout)
				if err := httpsuite.Receive(t, ended); err == nil {
					t.Error("all has been read and written")
				}
				s.wantResetBy(1, test.by...)
			})
		})
	}
}

// A response that waits as a whole has its stream reset after its handler has returned.
func TestHTTP2ClosedWindowAfterTheHandler(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		limits := slow(400 * ms)
		s := start2(t, secure, limits, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "done") })
		f := s.dialFramed(noWindow)
		begun := f.open(1, getBlock, endStream)
		f.again(t, ping, 50*ms)
		reset := f.wantReset(1)
		httpsuite.NotBefore(t, reset, begun, limits.WriteTimeout)
		f.Drain() // it has no stream any more
		s.WantConns(1, "keep-alive", idle.ReasonReadTotal)
		if n := s.Stats().Phases["request stream"]; n != 1 {
			t.Errorf("%d streams were reset", n)
		}
	})
}

// A stream that is to be reset within a frame of the client's has to wait for its
// end. If that does not come either, the connection is ended.
func TestHTTP2StreamEndsWithinAFrame(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		t.Run("it is completed", func(t *testing.T) {
			t.Parallel()
			limits := slow(600 * ms)
			limits.HeaderTimeout, limits.KeepAliveTimeout = patience, patience
			h, ended := fails()
			s := start2(t, secure, limits, h)
			f := s.dialFramed(defaultWindow)
			f.open(1, postBlock, 0)
			whole := frame(typeData, 0, 1, strings.Repeat("x", 200))
			f.Send(whole[:100])
			httpsuite.Eventually(t, "the stream is counted", func() bool { return s.Stats().Phases["request stream"] == 1 })
			f.Send(whole[100:])
			f.wantReset(1)
			httpsuite.Receive(t, ended)
			s.wantReset(1)
		})
		t.Run("it is not", func(t *testing.T) {
			t.Parallel()
			limits := slow(600 * ms)
			h, ended := fails()
			s := start2(t, secure, limits, h)
			f := s.dialFramed(defaultWindow)
			begun := f.open(1, postBlock, 0)
			f.Send("\x00\x40\x00" + frame(typeData, 0, 1, "x")[3:]) // of 16384 bytes
			f.again(t, "x", 50*ms)
			httpsuite.NotBefore(t, f.Drain(), begun, limits.BodyRate.Grace)
			httpsuite.Receive(t, ended)
		})
	})
}

// A header has to be complete by the limit, in however many frames it comes, and
// whatever other streams there are.
func TestHTTP2HeaderTrickle(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		for _, beside := range []string{"alone", "beside a stream"} {
			for name, texts := range map[string][2]string{
				"frames": {frame(typeHeaders, 0, 3, "\x82"), frame(typeContinuation, 0, 3, "")},
				"bytes":  {frame(typeHeaders, endHeaders, 3, strings.Repeat("\x82", 250))[:12], "\x82"},
				"stops":  {frame(typeHeaders, endHeaders, 3, getBlock)[:9], ""},
			} {
				t.Run(name+" "+beside, func(t *testing.T) {
					t.Parallel()
					limits := slow(400 * ms)
					limits.KeepAliveTimeout = patience
					s := start2(t, secure, limits, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
					f := s.dialFramed(defaultWindow)
					if beside != "alone" {
						f.open(1, getBlock, endStream)
					}
					begun := f.Send(texts[0])
					f.again(t, texts[1], 50*ms)
					httpsuite.NotBefore(t, f.Drain(), begun, limits.HeaderTimeout)
					s.WantOnly(1, "request header", idle.ReasonReadTotal)
				})
			}
		}
	})
}

// A stream that is reset leaves those beside it alone: one whose body comes, and
// one whose response is taken.
func TestHTTP2OtherStreamsLive(t *testing.T) {
	httpsuite.Both(t, func(t0 *testing.T, secure bool) {
		t := intime.Of(t0, 150*ms)
		limits := slow(600 * ms)
		limits.KeepAliveTimeout = patience
		s := start2(t, secure, limits, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == "POST" {
				io.Copy(io.Discard, r.Body)
				return
			}
			w.Write(make([]byte, 10_000))
			time.Sleep(2 * time.Second)
		})
		f := s.dialFramed(noWindow)
		f.open(1, getBlock, endStream) // it takes nothing
		f.open(3, getBlock, endStream)
		f.update(3, 20_000)
		f.open(5, postBlock, 0)
		for range 15 {
			f.data(5, 500, 0)
			time.Sleep(100 * ms)
		}
		f.data(5, 0, endStream)
		f.wantReset(1)
		f.wantEnd(5)
		f.wantEnd(3)
		s.wantReset(1)
	})
}
