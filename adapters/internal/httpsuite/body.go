package httpsuite

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/idle"
)

// ofBodies are about bodies and pipelined requests.
var ofBodies = []promise{

	// When a client has been told to continue, the limits of a body begin. It gets a 408 although it
	// has got an interim response.
	{"ExpectContinue", usual, func(t *testing.T, u under) {
		const limit = 400 * ms
		var s *Site
		expect := func(t testing.TB) (*Client, time.Time) {
			t.Helper()
			s = u.start(t, Only(limit, "BodyTimeout"), echo)
			c := s.Dial()
			begun := c.Send(expecting)
			c.T = t
			c.Line("HTTP/1.1 100 Continue\r")
			c.Line("\r")
			return c, begun
		}
		inTime := intime.Of(t, limit/4)
		c, _ := expect(inTime)
		for range 2 {
			time.Sleep(limit / 4)
			c.Send("hello")
		}
		if c.Want(http.StatusOK) != "hellohello" {
			inTime.Error("the body is another one")
		}
		c.Close()
		c, begun := expect(t)
		c.Refused(http.StatusRequestTimeout)
		NotBefore(t, c.WantClosed(), begun, limit)
		s.WantOnly(1, "request", idle.ReasonRead)
	}},

	// If the handler doesn't read the body, the server does, perhaps after the handler has answered.
	// Then the client gets that answer, although the body stops.
	{"UnwantedBodyStops", usual, func(t *testing.T, u under) {
		s := u.start(t, Only(limit, "BodyTimeout"), func(r Request) { io.WriteString(r, "no") })
		c := s.Dial()
		begun := c.Send(Post(10) + "hello")
		if !u.CallsEarly {
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

	// A header that begins in the same segment as earlier requests has a limit. That counts
	// from when the server reports the header, or from when more of it arrives.
	{"HeaderBeginsWithARequest", everywhere, func(t0 *testing.T, u under) {
		t := intime.Of(t0, limit/2) // for the server to answer the requests before
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
			c.Send("T") // from which on net/http knows of it
			NotBefore(t, c.Refused(http.StatusRequestTimeout), begun, limit)
		}
		s.WantOnly(2, "request header", idle.ReasonPhase)
	}},
}
