package httpsuite

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/idlewheel/idlewheel/idle"
)

var ofHeaders = []promise{
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

	// A connection that is kept goes on as if nothing were.
	{"KeptGoesOn", usual, func(t *testing.T, u under) {
		var asked atomic.Int32
		to := All(limit / 2)
		to.OnTimeout = func(net.Conn, *idle.TimeoutError) bool { asked.Add(1); return true }
		s := u.start(t, to, echo)
		c := s.Dial()
		for _, part := range []string{"", Post(6)[:10], Post(6)[10:] + "abc", "def"} {
			c.Send(part)
			n := asked.Load()
			Eventually(t, "it is asked twice", func() bool { return asked.Load() >= n+2 })
		}
		if got := c.Want(200); got != "abcdef" {
			t.Errorf("got %q", got)
		}
		if st := s.Stats(); st.Kept < 8 {
			t.Errorf("%+v", st)
		}
		s.WantNone()
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
