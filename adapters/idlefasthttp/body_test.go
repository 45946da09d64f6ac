package idlefasthttp

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/idle"
)

// TestSilentBody: nothing of it arrives, or nothing more.
func TestSilentBody(t *testing.T) {
	t.Parallel()
	flavours(t, func(t *testing.T, start func(*fasthttp.Server, Timeouts) *server) {
		to := limits()
		to.BodyTimeout = limit
		s := start(&fasthttp.Server{}, to)
		for _, part := range []string{"", "abc"} {
			c := s.dial(t)
			c.get("/")
			begun := time.Now()
			c.send(post(10000) + part)
			notBefore(t, c.refused(408), begun, limit)
			c.Close()
		}
		s.wantPhases(t, "request", 2)
		s.wantReason(t, idle.ReasonRead, 2)
	})
}

// TestSilentChunkedBody stops before, within and after a chunk. For the trailer
// see TestSilentTrailer.
func TestSilentChunkedBody(t *testing.T) {
	t.Parallel()
	to := limits()
	to.BodyTimeout = limit
	for _, body := range []string{"", "5", "5\r\nab", "5\r\nabcde\r\n"} {
		s := start(t, &fasthttp.Server{}, to)
		c := s.dial(t)
		begun := time.Now()
		c.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + body)
		t.Run(body, func(t *testing.T) {
			t.Parallel()
			c := &client{Conn: c.Conn, in: c.in, t: t}
			notBefore(t, c.refused(408), begun, limit)
			s.wantPhase(t, "request")
		})
	}
}

// TestChunkedBody is served if it goes on.
func TestChunkedBody(t *testing.T) {
	t.Parallel()
	to := limits()
	to.BodyTimeout = patience
	s := start(t, &fasthttp.Server{}, to)
	c := s.dial(t)
	for range 2 {
		c.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
		c.trickle("5\r\nabcde\r\n3\r\nabc\r\n0\r\n\r\n", 10*ms)
		if got := c.response(200); got != "/ 8" {
			t.Error(got)
		}
	}
}

// TestTricklingBody: bytes come in time, but too few of them.
func TestTricklingBody(t *testing.T) {
	t.Parallel()
	flavours(t, func(t *testing.T, start func(*fasthttp.Server, Timeouts) *server) {
		to := limits()
		to.BodyRate = idle.Rate{BytesPerSecond: 10_000, Grace: limit} // TLS makes 22 bytes of one
		s := start(&fasthttp.Server{}, to)
		c := s.dial(t)
		begun := time.Now()
		c.send(post(1000))
		go c.trickle(strings.Repeat("x", 999), 20*ms) // at most 50 a second
		notBefore(t, c.refused(408), begun, limit)
		s.wantPhase(t, "request")
		s.wantReason(t, idle.ReasonMinReadRate, 1)
	})
}

// TestLivingBody is a little faster than it has to be, for longer than the
// grace, and in two requests.
func TestLivingBody(t0 *testing.T) {
	t0.Parallel()
	const grace = 700 * ms
	t := intime.Of(t0, grace/3)
	to := limits()
	to.BodyRate = idle.Rate{BytesPerSecond: 500, Grace: grace}
	s := start(t, &fasthttp.Server{}, to)
	c := s.dial(t)
	part := strings.Repeat("x", 50)
	for range 2 {
		const parts = 30
		c.send(post(parts * len(part)))
		begun := time.Now()
		for i := range parts { // 50 bytes each 50 ms: twice the rate
			c.send(part)
			time.Sleep(time.Until(begun.Add(time.Duration(i+1) * 50 * ms)))
		}
		if got := c.response(200); got != "/ 1500" {
			t.Error(got)
		}
	}
	c.Close()
	s.shutdown(t)
	s.noTimeout(t)
}

// TestHandlerThatPausesReading: for longer than every limit. The client has sent
// all, or waits in turn; it is not to be blamed.
func TestHandlerThatPausesReading(t0 *testing.T) {
	t0.Parallel()
	t := intime.Of(t0, limit/2)
	const size = 2 << 20
	ended := make(chan error, 1)
	to := limits()
	to.HandshakeTimeout, to.HeaderTimeout, to.KeepAliveTimeout = limit, limit, 10*limit
	to.BodyTimeout, to.BodyRate = limit, idle.Rate{BytesPerSecond: 10 << 10, Grace: limit}
	s := start(t, &fasthttp.Server{
		StreamRequestBody: true, MaxRequestBodySize: 2 * size,
		Handler: func(ctx *fasthttp.RequestCtx) {
			body := ctx.RequestBodyStream()
			var total int64
			for _, part := range []int64{1000, size / 2, size} {
				time.Sleep(3 * limit)
				n, err := io.Copy(io.Discard, io.LimitReader(body, part))
				total += n
				if err != nil {
					ended <- err
					return
				}
			}
			time.Sleep(3 * limit)
			ended <- map[bool]error{false: fmt.Errorf("%d bytes", total)}[total == size]
		},
	}, to)
	c := s.dial(t)
	go io.WriteString(c, post(size)+strings.Repeat("x", size))
	c.response(200)
	if err := receive(t, ended); err != nil {
		t.Error(err)
	}
	c.Close()
	s.shutdown(t)
	s.noTimeout(t)
}

// TestHandlerSeesTheTimeout in the error of what it reads. Its answer comes too
// late.
func TestHandlerSeesTheTimeout(t *testing.T) {
	t.Parallel()
	got := make(chan error, 1)
	to := limits()
	to.BodyTimeout = limit
	s := start(t, &fasthttp.Server{
		StreamRequestBody: true,
		Handler: func(ctx *fasthttp.RequestCtx) {
			_, err := io.Copy(io.Discard, ctx.RequestBodyStream())
			got <- err
		},
	}, to)
	c := s.dial(t)
	c.send(post(100<<10) + strings.Repeat("x", 50<<10))
	c.refused(408)
	err := receive(t, got)
	var timeout *idle.TimeoutError
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if !errors.As(err, &timeout) {
		t.Errorf("%v is no *idle.TimeoutError", err)
	} else if timeout.Reason != idle.ReasonRead || timeout.Phase != "request" || timeout.Limit != limit {
		t.Errorf("%v", err)
	}
}

// TestExpectContinue: the time for the body begins with the word to send it,
// which is no response.
func TestExpectContinue(t *testing.T) {
	t.Parallel()
	to := limits()
	to.BodyTimeout = limit
	s := start(t, &fasthttp.Server{}, to)
	expect := func(t testing.TB) *client {
		c := s.dial(t)
		c.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
		b := make([]byte, 25)
		if _, err := io.ReadFull(c.in, b); err != nil || string(b) != "HTTP/1.1 100 Continue\r\n\r\n" {
			t.Fatalf("%q %v", b, err)
		}
		return c
	}
	c := expect(intime.Of(t, limit/2))
	c.send("abc")
	if got := c.response(200); got != "/ 3" {
		t.Error(got)
	}
	c.Close()
	begun := time.Now()
	notBefore(t, expect(t).refused(408), begun, limit)
	s.wantPhase(t, "request")
}

// TestExpectContinueOverTLS: there it cannot be told from a response, so there is
// no 408.
func TestExpectContinueOverTLS(t *testing.T) {
	t.Parallel()
	to := limits()
	to.BodyTimeout = limit
	s := startTLS(t, &fasthttp.Server{}, to)
	c := s.dial(t)
	begun := time.Now()
	c.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
	if _, err := io.ReadFull(c.in, make([]byte, 25)); err != nil {
		t.Fatal(err)
	}
	notBefore(t, c.closed(), begun, limit)
	s.wantPhase(t, "request")
}

// TestSilentTrailer is answered, but fasthttp itself makes another error of it,
// which it logs: see TestFasthttpLogsTimeoutsOfTrailers.
func TestSilentTrailer(t *testing.T) {
	t.Parallel()
	to := limits()
	to.BodyTimeout = limit
	log := &server{}
	s := start(t, &fasthttp.Server{Logger: log}, to)
	c := s.dial(t)
	begun := time.Now()
	c.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n")
	notBefore(t, c.refused(408), begun, limit)
	s.wantPhase(t, "request")
	eventually(t, "it is logged", func() bool { return len(log.logged()) == 1 })
	if line := log.logged()[0]; !strings.HasSuffix(line, "fasthttp: timeout") {
		t.Error(line)
	}
}

// TestBodyAfterPipelinedRequests: one that is waited for has the limits of
// bodies, whatever came with its header. It is not answered: where fasthttp holds
// the responses before it back, an answer would come in place of those.
func TestBodyAfterPipelinedRequests(t *testing.T) {
	t.Parallel()
	flavours(t, func(t *testing.T, start func(*fasthttp.Server, Timeouts) *server) {
		to := limits()
		to.BodyTimeout = limit
		s := start(&fasthttp.Server{}, to)
		for _, first := range []bool{true, false} {
			c := s.dial(t)
			if !first {
				c.get("/")
			}
			begun := time.Now()
			c.send("GET /done HTTP/1.1\r\nHost: a\r\n\r\n" + post(5) + "ab")
			got, _ := io.ReadAll(c.in)
			notBefore(t, time.Now(), begun, limit)
			if len(got) > 0 && (!strings.HasPrefix(string(got), "HTTP/1.1 200 ") || !strings.HasSuffix(string(got), "\r\n\r\n/done 0")) {
				t.Errorf("got %q", got)
			}
			c.Close()
		}
		s.wantPhases(t, "request", 2)
		s.wantReason(t, idle.ReasonRead, 2)
	})
}

// TestUploadAfterPipelinedRequests is the other side of it: one that goes on is
// not cut by the limit of the handshake, or of the header.
func TestUploadAfterPipelinedRequests(t0 *testing.T) {
	t0.Parallel()
	t := intime.Of(t0, limit/2)
	to := limits()
	to.HandshakeTimeout, to.HeaderTimeout, to.KeepAliveTimeout = limit, limit, limit
	s := start(t, &fasthttp.Server{}, to)
	c := s.dial(t)
	c.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n" + post(30))
	c.trickle(strings.Repeat("x", 30), limit/10)
	c.response(200)
	if got := c.response(200); got != "/ 30" {
		t.Error(got)
	}
	c.Close()
	s.shutdown(t)
	s.noTimeout(t)
}

// TestReadTimeoutOfARequest: that which the server's own HeaderReceived returns
// is a limit beside those of the adapter, answered by fasthttp.
func TestReadTimeoutOfARequest(t *testing.T) {
	t.Parallel()
	for _, own := range []time.Duration{limit, time.Minute} {
		to := limits()
		to.BodyTimeout = time.Minute + limit - own
		s := start(t, &fasthttp.Server{HeaderReceived: func(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
			return fasthttp.RequestConfig{ReadTimeout: own}
		}}, to)
		t.Run(own.String(), func(t *testing.T) {
			t.Parallel()
			c := s.dial(t)
			begun := time.Now()
			c.send(post(100) + "abc")
			notBefore(t, c.refused(408), begun, limit)
			want := uint64(0)
			if own > limit {
				want = 1
			}
			eventually(t, "it is closed", func() bool { return s.Stats().Live == 0 })
			s.wantReason(t, idle.ReasonRead, want)
		})
	}
}

// TestReadDeadlineOfAHandler takes the place of the limits of the body, for that
// request only.
func TestReadDeadlineOfAHandler(t *testing.T) {
	t.Parallel()
	to := limits()
	to.BodyTimeout, to.KeepAliveTimeout = limit, limit
	s := start(t, &fasthttp.Server{
		StreamRequestBody: true,
		Handler: func(ctx *fasthttp.RequestCtx) {
			ctx.Conn().SetReadDeadline(time.Now().Add(patience))
			n, err := io.Copy(io.Discard, ctx.RequestBodyStream())
			if n != 100<<10 || err != nil {
				t.Error(n, err)
			}
			ctx.Conn().SetReadDeadline(time.Time{})
		},
	}, to)
	c := s.dial(t)
	half := strings.Repeat("x", 50<<10)
	c.send(post(100<<10) + half)
	time.Sleep(3 * limit)
	c.send(half)
	c.response(200)
	notBefore(t, c.closed(), c.sent, limit)
	s.wantPhase(t, "keep-alive")
}
