package httpsuite

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
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
