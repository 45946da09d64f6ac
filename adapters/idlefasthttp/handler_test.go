package idlefasthttp

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/idle"
)

// TestLongHandler runs for much longer than every limit, which is not the
// client's fault.
func TestLongHandler(t *testing.T) {
	t.Parallel()
	flavours(t, func(t0 *testing.T, start func(*fasthttp.Server, Timeouts) *server) {
		to := limits()
		rate := idle.Rate{BytesPerSecond: 1000, Grace: limit}
		to.HeaderTimeout, to.BodyTimeout, to.WriteTimeout = limit, limit, limit
		to.BodyRate, to.WriteRate = rate, rate
		to.HandshakeTimeout, to.KeepAliveTimeout = 2*limit, 2*limit
		s := start(&fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) {
			if string(ctx.Path()) != "/quick" {
				time.Sleep(4 * limit)
			}
			hello(ctx)
		}}, to)
		t := intime.Of(t0, limit)
		c := s.dial(t)
		c.get("/a")
		for range 5 { // most of them within a tick
			c.get("/quick")
		}
		time.Sleep(limit / 4)
		c.send(post(3) + "abc")
		if got := c.response(200); got != "/ 3" {
			t.Error(got)
		}
		c.Close()
		s.shutdown(t)
		s.noTimeout(t)
	})
}

// TestHandlerTimeout: a request that takes too long is answered with 503, for
// its handler, which is not stopped.
func TestHandlerTimeout(t *testing.T) {
	t.Parallel()
	flavours(t, func(t *testing.T, start func(*fasthttp.Server, Timeouts) *server) {
		to := limits()
		to.HandlerTimeout = limit
		var slow gate // or a quick request may take too long, on a slow machine
		to.OnTimeout = slow.keep
		proceed, ran := make(chan struct{}), make(chan struct{}, 2)
		s := start(&fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) {
			if string(ctx.Path()) != "/quick" {
				<-proceed // which comes after the 503
				ran <- struct{}{}
			}
			hello(ctx)
		}}, to)
		t.Cleanup(func() { close(proceed) })
		for _, request := range []string{"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n", post(3) + "abc"} {
			c := s.dial(t)
			for range 3 {
				c.get("/quick")
			}
			slow.open()
			c.send(request)
			notBefore(t, c.refused(503), c.sent, limit)
			slow.shut()
			proceed <- struct{}{}
			receive(t, ran)
			c.Close()
		}
		s.wantPhases(t, "request", 2)
		s.wantReason(t, idle.ReasonPhase, 2)
	})
}

// TestHandlerTimeoutIsOfOneRequest: many that are quick may take longer in all,
// and the waits between them do not count.
func TestHandlerTimeoutIsOfOneRequest(t0 *testing.T) {
	t0.Parallel()
	const limit = time.Second
	t := intime.Of(t0, limit/2)
	to := limits()
	to.HandlerTimeout = limit
	s := start(t, &fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) {
		time.Sleep(limit / 4)
		hello(ctx)
	}}, to)
	c := s.dial(t)
	const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	for range 2 {
		c.send(get + get + get) // pipelined
		for range 3 {
			c.response(200)
		}
		c.get("/")
	}
	time.Sleep(limit * 3 / 2)
	c.get("/")
	c.Close()
	s.shutdown(t)
	s.noTimeout(t)
}

// TestHandlerTimeoutWithinTheResponse: once that has begun there is nothing to
// be said.
func TestHandlerTimeoutWithinTheResponse(t *testing.T) {
	t.Parallel()
	inTime := intime.Of(t, limit/2) // the server, with the beginning
	to := limits()
	to.HandlerTimeout = limit
	ended := make(chan error, 1)
	s := start(t, &fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) {
		ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
			var err error
			for begun := time.Now(); err == nil && time.Since(begun) < patience; time.Sleep(20 * ms) {
				w.WriteString("more")
				err = w.Flush()
			}
			ended <- err
		})
	}}, to)
	c := s.dial(t)
	begun := time.Now()
	c.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	res, err := http.ReadResponse(c.in, nil)
	if err != nil || res.StatusCode != 200 {
		inTime.Fatal(err, res)
	}
	body, err := io.ReadAll(res.Body)
	if err == nil || strings.Trim(string(body), "more") != "" {
		t.Errorf("%q %v", body, err)
	}
	notBefore(t, time.Now(), begun, limit)
	s.wantPhase(t, "request")
	if err := receive(t, ended); err == nil {
		t.Error("the writer has not been told")
	}
}

// TestHandlerTimeoutInTheBody: it counts from the end of the header.
func TestHandlerTimeoutInTheBody(t *testing.T) {
	t.Parallel()
	to := limits()
	to.HandlerTimeout = limit
	s := start(t, &fasthttp.Server{}, to)
	c := s.dial(t)
	begun := time.Now()
	c.send(post(1000))
	go c.trickle(strings.Repeat("x", 999), 20*ms)
	notBefore(t, c.refused(503), begun, limit)
	s.wantPhase(t, "request")
}

// TestFasthttpsTimeoutHandler goes together with the adapter.
func TestFasthttpsTimeoutHandler(t *testing.T) {
	t.Parallel()
	to := limits()
	to.HandlerTimeout = time.Minute
	done := make(chan struct{})
	s := start(t, &fasthttp.Server{Handler: fasthttp.TimeoutHandler(func(ctx *fasthttp.RequestCtx) {
		<-done
	}, 100*ms, "too slow")}, to)
	c := s.dial(t)
	for range 2 {
		c.send(post(3) + "abc")
		if got := c.response(408); got != "too slow" {
			t.Error(got)
		}
	}
	close(done)
	c.Close()
	s.shutdown(t)
	s.noTimeout(t)
}
