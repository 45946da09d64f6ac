package httpsuite

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// ofBodies are about bodies, and requests that are pipelined or late.
var ofBodies = []promise{

	// When a client has been told to continue, the limits of a body begin. It gets a 408 although it
	// has got an interim response.
	{"ExpectContinue", usual, func(t *testing.T, u under) {
		s := u.start(t, Only(limit, "BodyTimeout"), echo)
		expect := func() (*Client, time.Time) {
			c := s.Dial()
			begun := c.Send(expecting)
			c.Line("HTTP/1.1 100 Continue\r")
			c.Line("\r")
			return c, begun
		}
		c, _ := expect()
		for range 2 {
			time.Sleep(limit * 3 / 4)
			c.Send("hello")
		}
		if c.Want(http.StatusOK) != "hellohello" {
			t.Error("the body is another one")
		}
		c.Close()
		c, begun := expect()
		c.Refused(http.StatusRequestTimeout)
		NotBefore(t, c.WantClosed(), begun, limit)
		s.WantOnly(1, "request", idle.ReasonRead)
	}},

	// If the handler doesn't read the body, the server does, perhaps after the handler has answered.
	// Then the client gets that answer, although the body stops.
	{"UnwantedBodyStops", usual, func(t *testing.T, u under) {
		s := u.start(t, Only(limit, "BodyTimeout"), func(r request) { io.WriteString(r, "no") })
		c := s.Dial()
		begun := c.Send(Post(10) + "hello")
		if !u.callsEarly {
			c.Refused(http.StatusRequestTimeout)
		} else if got := c.Want(http.StatusOK); got != "no" {
			t.Errorf("got %q", got)
		}
		NotBefore(t, c.WantClosed(), begun, limit)
		s.WantOnly(1, "request", idle.ReasonRead)
	}},

	// A body that stops is ended even if its header was pipelined behind another request. The client
	// gets the response to that request, which the server may still hold back, and then an answer.
	{"PipelinedBodyStops", everywhere, func(t *testing.T, u under) {
		s := u.start(t, Only(limit, "BodyTimeout"), echo)
		for _, first := range []bool{true, false} {
			c := s.Dial()
			if !first {
				c.Get("/")
			}
			begun := c.Send(Get("/") + Post(10) + "hello")
			c.Want(http.StatusOK)
			c.Want(http.StatusRequestTimeout)
			NotBefore(t, c.WantClosed(), begun, limit)
		}
		s.WantOnly(2, "request", idle.ReasonRead)
	}},

	// A header that begins in the same segment as earlier requests has a limit. net/http doesn't tell of its beginning, so there
	// the limit counts from when more of it arrives.
	{"HeaderBeginsWithARequest", everywhere, func(t *testing.T, u under) {
		s := u.start(t, Only(limit, "HeaderTimeout"), echo)
		for _, before := range []int{1, 5} {
			c := s.Dial()
			if before > 1 {
				c.Get("/")
			}
			begun := c.Send(strings.Repeat(Get("/"), before) + "GET / HT")
			for range before {
				c.Want(http.StatusOK)
			}
			if !u.tellsOfHeaders {
				time.Sleep(limit * 2)
				begun = c.Send("TP")
			}
			NotBefore(t, c.Refused(http.StatusRequestTimeout), begun, limit)
		}
		s.WantOnly(2, "request header", idle.ReasonPhase)
	}},

	// A request that arrives when its connection has been ended isn't executed, and gets no byte of a response. So its client may
	// send it again. Package simserver tests that with many clients.
	{"LateRequestIsNotExecuted", usual, func(t *testing.T, u under) {
		to := Only(limit, "KeepAliveTimeout")
		var c atomic.Pointer[Client]
		to.Idle.OnEnds = func([]idle.End) {}
		to.Idle.Label = func(any) string { // called after the end has been decided, and before OnEnd and Expire
			if c := c.Load(); c != nil {
				io.WriteString(c, Get("/late"))
				time.Sleep(50 * ms) // so that the server could read it
			}
			return ""
		}
		s := u.start(t, to, func(r request) {
			if r.Path() == "/late" {
				t.Error("it was executed")
			}
		})
		client := s.Dial()
		client.Get("/")
		c.Store(client)
		client.WantClosed()
		s.WantOnly(1, "keep-alive", idle.ReasonPhase)
	}},
}
