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

var ofKeepAlive = []promise{
	// The wait begins anew with each response, and is not that of the handshake, the header
	// or the body.
	{"KeepAliveBeginsAnew", usual, func(t0 *testing.T, u under) {
		const limit = 800 * ms
		t := intime.Of(t0, limit/4)
		to := All(limit / 4)
		to.HandshakeTimeout, to.KeepAliveTimeout = limit, limit
		to.BodyRate = idle.Rate{BytesPerSecond: 100, Grace: limit / 4}
		s := u.start(t, to, echo)
		c := s.Dial()
		for range 4 {
			c.Send(Post(3) + "abc")
			c.Want(http.StatusOK)
			time.Sleep(limit / 2)
		}
		last := c.Send(Get("/"))
		c.Want(http.StatusOK)
		s.WantNone()
		c.T = t0
		NotBefore(t0, c.WantClosed(), last, limit)
		s.WantOnly(1, "keep-alive", idle.ReasonRead)
	}},

	// The wait begins when the response has been sent, however long that took.
	{"KeepAliveAfterALongHandler", usual, func(t *testing.T, u under) {
		const limit = 800 * ms
		finished := make(chan time.Time, 3)
		s := u.start(t, Only(limit, "KeepAliveTimeout"), func(r Request) {
			if r.Path() == "/long" {
				time.Sleep(limit * 3 / 4)
			}
			finished <- time.Now()
		})
		c := s.Dial()
		c.T = intime.Of(t, limit/2)
		c.Get("/")
		c.Get("/")
		c.Get("/long")
		c.T = t
		<-finished
		<-finished
		NotBefore(t, c.WantClosed(), <-finished, limit)
		s.WantOnly(1, "keep-alive", idle.ReasonRead)
	}},

	// Many requests at once are served, wherever they are cut.
	{"Pipelining", everywhere, func(t *testing.T, u under) {
		s := u.start(t, All(Patience), echo)
		c := s.Dial()
		const n = 20
		all := strings.Repeat(Get("/a")+Post(5)+"hello", n)
		go func() {
			for len(all) > 0 {
				cut := min(len(all), 37)
				if _, err := io.WriteString(c, all[:cut]); err != nil {
					return
				}
				all = all[cut:]
			}
		}()
		for range n {
			if a, b := c.Want(http.StatusOK), c.Want(http.StatusOK); a != "" || b != "hello" {
				t.Errorf("got %q and %q", a, b)
			}
		}
		s.WantNone()
	}},

	// A client that goes on sending while a long handler runs is not cut, nor is its next
	// request.
	{"PipeliningBehindALongHandler", usual, func(t0 *testing.T, u under) {
		t := intime.Of(t0, 100*ms)
		to := All(limit)
		to.HandshakeTimeout = Patience
		s := u.start(t, to, func(r Request) {
			if r.Path() == "/long" {
				time.Sleep(3 * limit)
			}
			io.WriteString(r, r.Path())
		})
		c := s.Dial()
		c.Send(Get("/long"))
		time.Sleep(limit / 2)
		c.Send(Get("/next"))
		if a, b := c.Want(http.StatusOK), c.Want(http.StatusOK); a != "/long" || b != "/next" {
			t.Errorf("got %q and %q", a, b)
		}
		s.WantNone()
	}},

	// A connection whose last response was sent is gone by itself.
	{"ConnectionClose", usual, func(t *testing.T, u under) {
		s := u.start(t, All(Patience), echo)
		c := s.Dial()
		c.Send("GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
		c.Want(http.StatusOK)
		c.WantClosed()
		Eventually(t, "it is gone", func() bool { return s.Stats().Gone == 1 })
	}},
}
