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

// ofBodies are about bodies, and about requests that are sent together.
var ofBodies = []promise{

	// A client that asks whether to go on, and is told to, has the body's limits from then
	// on. Without TLS the interim answer does not stand in the way of a 408.
	{"ExpectContinue", usual, func(t *testing.T, u under) {
		const request = "POST / HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n"
		const limit = 400 * ms
		var s *Site
		expect := func(t testing.TB) (*Client, time.Time) {
			t.Helper()
			s = u.start(t, Only(limit, "BodyTimeout"), echo)
			c := s.Dial()
			begun := c.Send(request)
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
		if !u.Secure {
			c.Refused(http.StatusRequestTimeout)
		}
		NotBefore(t, c.WantClosed(), begun, limit)
		s.WantOnly(1, "request", idle.ReasonRead)
	}},

	// A body that stops has its limit also if its header came together with the request
	// before it. Where the server holds the response to that back, there is no answer.
	{"PipelinedBodyStops", everywhere, func(t *testing.T, u under) {
		s := u.start(t, Only(limit, "BodyTimeout"), echo)
		for _, first := range []bool{true, false} {
			c := s.Dial()
			if !first {
				c.Get("/")
			}
			begun := c.Send(Get("/") + Post(10) + "hello")
			if u.PipelinedAnswer {
				c.Want(http.StatusOK)
				NotBefore(t, c.Refused(http.StatusRequestTimeout), begun, limit)
				continue
			}
			got, _ := io.ReadAll(c.In)
			NotBefore(t, time.Now(), begun, limit)
			if len(got) > 0 && (!strings.HasPrefix(string(got), "HTTP/1.1 200 ") || !strings.HasSuffix(string(got), "\r\n\r\n")) {
				t.Errorf("got %q", got)
			}
		}
		s.WantOnly(2, "request", idle.ReasonRead)
	}},

	// A header that began together with a request before it has its limit, from then on if
	// the server tells of it, else from when more of it comes.
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
			NotBefore(t, c.Refused(http.StatusRequestTimeout), begun, limit)
		}
		s.WantOnly(2, "request header", idle.ReasonReadTotal)
	}},
}
