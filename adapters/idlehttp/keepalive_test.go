package idlehttp

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/idle"
)

// A connection that waits for its next request is closed without a word, each
// time counted from its last response.
func TestKeepAlive(t *testing.T) {
	both(t, func(t0 *testing.T, secure bool) {
		t := intime.Of(t0, 100*ms)
		limits := off()
		limits.KeepAliveTimeout = 400 * ms
		s := start(t, secure, limits, echo)
		c := s.dial()
		var last time.Time
		for range 4 {
			last = c.send(get("/"))
			c.want(http.StatusOK)
			time.Sleep(limits.KeepAliveTimeout / 4)
		}
		notBefore(t0, c.wantClosed(), last, limits.KeepAliveTimeout)
		s.wantOnly(1, "keep-alive", idle.ReasonRead)
	})
}

// The wait begins when the response has been sent, however long that took.
func TestKeepAliveAfterALongHandler(t *testing.T) {
	both(t, func(t *testing.T, secure bool) {
		limits := off()
		limits.KeepAliveTimeout = time.Second
		var finished time.Time
		s := start(t, secure, limits, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/long" {
				time.Sleep(limits.KeepAliveTimeout * 3 / 4)
			}
			finished = time.Now()
		})
		c := s.dial()
		c.t = intime.Of(t, limits.KeepAliveTimeout/2)
		for _, path := range []string{"/", "/", "/long"} {
			c.send(get(path))
			c.want(http.StatusOK)
		}
		c.t = t
		notBefore(t, c.wantClosed(), finished, limits.KeepAliveTimeout)
	})
}

// What arrives within the wait is a request's first byte, which ends it.
func TestFirstByteEndsTheWait(t *testing.T) {
	t.Parallel()
	limits := off()
	limits.KeepAliveTimeout, limits.HeaderTimeout = patience, 400*ms
	s := serve(t, limits, echo)
	c := s.dial()
	c.send(get("/"))
	c.want(http.StatusOK)
	time.Sleep(limits.HeaderTimeout)
	begun := c.send("G")
	_, at := c.want(http.StatusRequestTimeout)
	notBefore(t, at, begun, limits.HeaderTimeout)
	s.wantOnly(1, "request header", idle.ReasonReadTotal)
}

func TestPipelining(t *testing.T) {
	both(t, func(t *testing.T, secure bool) {
		limits := all(patience)
		s := start(t, secure, limits, echo)
		c := s.dial()
		const n = 20
		c.send(strings.Repeat(get("/")+post("5")+"hello", n))
		for range n {
			c.want(http.StatusOK)
			if body, _ := c.want(http.StatusOK); body != "hello" {
				t.Errorf("got %q", body)
			}
		}
		s.wantNone()
	})
}

// A client that goes on sending while a long handler runs is not cut, nor is its
// next request.
func TestPipeliningBehindALongHandler(t *testing.T) {
	both(t, func(t0 *testing.T, secure bool) {
		t := intime.Of(t0, 100*ms)
		limits := all(500 * ms)
		s := start(t, secure, limits, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/long" {
				time.Sleep(3 * limits.HeaderTimeout)
			}
			io.WriteString(w, r.URL.Path)
		})
		c := s.dial()
		c.send(get("/long"))
		time.Sleep(limits.HeaderTimeout / 2)
		c.send(get("/next"))
		for _, want := range []string{"/long", "/next"} {
			if body, _ := c.want(http.StatusOK); body != want {
				t.Errorf("got %q, want %q", body, want)
			}
		}
		s.wantNone()
	})
}

// A body that is late has its limit, also if its header came together with the
// request before it, so that the server did not have to wait for it.
func TestPipelinedBodyStops(t *testing.T) {
	both(t, func(t *testing.T, secure bool) {
		limits := off()
		limits.BodyTimeout = 300 * ms
		s := start(t, secure, limits, echo)
		for _, first := range []bool{true, false} {
			c := s.dial()
			if !first {
				c.send(get("/"))
				c.want(http.StatusOK)
			}
			begun := c.send(get("/") + post("10") + "hello")
			c.want(http.StatusOK)
			_, at := c.want(http.StatusRequestTimeout)
			notBefore(t, at, begun, limits.BodyTimeout)
		}
		s.wantOnly(2, "request", idle.ReasonRead)
	})
}

// The other way round: the handshake's limit is over with the handshake.
func TestPipelinedBodyIsSlow(t *testing.T) {
	both(t, func(t0 *testing.T, secure bool) {
		t := intime.Of(t0, 200*ms)
		limits := off()
		limits.HandshakeTimeout = 500 * ms
		s := start(t, secure, limits, echo)
		c := s.dial()
		c.send(get("/") + post("10") + "hello")
		c.want(http.StatusOK)
		time.Sleep(2 * limits.HandshakeTimeout)
		c.send("hello")
		c.want(http.StatusOK)
		s.wantNone()
	})
}

// A header that has begun to arrive together with the request before it waits as
// if it had not, as net/http does not tell of it, until more of it comes.
func TestPipelinedHeaderStops(t *testing.T) {
	both(t, func(t *testing.T, secure bool) {
		t.Run("for good", func(t *testing.T) {
			t.Parallel()
			limits := off()
			limits.HeaderTimeout, limits.KeepAliveTimeout = time.Minute, 300*ms
			s := start(t, secure, limits, echo)
			c := s.dial()
			begun := c.send(get("/") + "GET / HT")
			c.want(http.StatusOK)
			notBefore(t, c.wantClosed(), begun, limits.KeepAliveTimeout)
			s.wantOnly(1, "keep-alive", idle.ReasonRead)
		})
		t.Run("for now", func(t *testing.T) {
			t.Parallel()
			limits := off()
			limits.HeaderTimeout, limits.KeepAliveTimeout = 300*ms, time.Minute
			s := start(t, secure, limits, echo)
			c := s.dial()
			c.send(get("/") + "GET / HT")
			c.want(http.StatusOK)
			begun := c.send("TP")
			_, at := c.want(http.StatusRequestTimeout)
			notBefore(t, at, begun, limits.HeaderTimeout)
			s.wantOnly(1, "request header", idle.ReasonReadTotal)
		})
	})
}
