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

var ofHandshakes = []promise{

	// A connection that is made ahead of need, as browsers do, may be silent for as long
	// as HandshakeTimeout says.
	{"AheadOfNeed", secure, func(t *testing.T, u under) {
		s := u.start(t, Only(limit, "HeaderTimeout"), echo)
		c := s.Dial()
		time.Sleep(3 * limit)
		c.Get("/")
		s.WantNone()
	}},
}

var ofHeaders = []promise{
	// What arrives within the limit is served, however it is cut, and each request has a
	// limit of its own.
	{"HeadersInPieces", plain, func(t0 *testing.T, u under) {
		const limit = time.Second
		t := intime.Of(t0, limit/4)
		s := u.start(t, Only(limit, "HeaderTimeout"), echo)
		c := s.Dial()
		for range 4 {
			text := Get("/")
			c.Send(text[:10])
			time.Sleep(limit / 3)
			c.Send(text[10:])
			c.Want(http.StatusOK)
		}
		s.WantNone()
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
			if !u.PipelinedHeader {
				begun = c.Send("TP")
			}
			NotBefore(t, c.Refused(http.StatusRequestTimeout), begun, limit)
		}
		s.WantOnly(2, "request header", idle.ReasonReadTotal)
	}},
}

// unreachable is a handler for tests in which no request may reach one.
func unreachable(t testing.TB) func(Request) {
	return func(Request) { t.Error("the handler is called") }
}

// echo answers with the body of the request.
func echo(r Request) {
	if b, err := io.ReadAll(r.Body()); err == nil {
		r.Write(b)
	}
}
