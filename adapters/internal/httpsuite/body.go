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

// half is half of the large body that a test sends, more than servers read before they
// call the handler.
var half = strings.Repeat("x", 50<<10)

var ofBodies = []promise{

	// A slow body that is above the rate lives for much longer than the limits, in each
	// request.
	{"BodyAboveTheRate", usual, func(t0 *testing.T, u under) {
		const limit = 600 * ms
		t := intime.Of(t0, limit/3)
		to := Only(limit, "BodyTimeout")
		to.BodyRate = idle.Rate{BytesPerSecond: 500, Grace: limit}
		s := u.start(t, to, echo)
		c := s.Dial()
		for range 2 {
			const parts = 30 // of 50 bytes, each 50 ms: twice the rate
			c.Send(Post(parts * 50))
			begun := time.Now()
			for i := range parts {
				c.Send(half[:50])
				time.Sleep(time.Until(begun.Add(time.Duration(i+1) * 50 * ms)))
			}
			if got := c.Want(http.StatusOK); len(got) != parts*50 {
				t.Errorf("%d bytes came back", len(got))
			}
		}
		s.WantNone()
	}},

	// A client that asks whether to go on, and is told to, has the body's limits from then
	// on. Without TLS the interim answer does not stand in the way of a 408.
	{"ExpectContinue", usual, func(t *testing.T, u under) {
		const request = "POST / HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n"
		const limit = 400 * ms
		s := u.start(t, Only(limit, "BodyTimeout"), echo)
		expect := func(t testing.TB) (*Client, time.Time) {
			t.Helper()
			c := s.Dial()
			begun := c.Send(request)
			c.T = t
			c.Line("HTTP/1.1 100 Continue\r")
			c.Line("\r")
			return c, begun
		}
		c, _ := expect(intime.Of(t, limit/4))
		for range 2 {
			time.Sleep(limit / 4)
			c.Send("hello")
		}
		if c.Want(http.StatusOK) != "hellohello" {
			t.Error("the body is another one")
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
}
