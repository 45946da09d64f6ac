package httpsuite

import (
	"log/slog"
	"net"
	"sync/atomic"
	"testing"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/idle"
)

var ofCallbacks = []promise{
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

	// What arrives while OnTimeout is asked averts the timeout if it is of the kind that does.
	{"OnTimeoutThatHesitates", usual, func(t0 *testing.T, u under) {
		const limit = 600 * ms
		t := intime.Of(t0, limit/3)
		asked, answer := make(chan bool), make(chan bool)
		to := Only(limit, "KeepAliveTimeout")
		to.OnTimeout = func(net.Conn, *idle.TimeoutError) bool {
			asked <- true
			return <-answer
		}
		s := u.start(t, to, echo)
		c := s.Dial()
		c.Get("/")
		Receive(t, asked)
		c.Get("/") // while it is asked
		answer <- false
		Receive(t, asked) // so it has not been closed
		answer <- false
		c.WantClosed()
		s.WantOnly(1, "keep-alive", idle.ReasonRead)
	}},

	// A callback that panics does not keep the connection.
	{"OnTimeoutThatPanics", plain, func(t *testing.T, u under) {
		to := Only(limit, "HeaderTimeout")
		to.Idle.Logger = slog.New(slog.DiscardHandler)
		to.OnTimeout = func(net.Conn, *idle.TimeoutError) bool { panic("on purpose") }
		s := u.start(t, to, unreachable(t))
		c := s.Dial()
		c.Send("G")
		c.Refused(408)
		s.WantOnly(1, "request header", idle.ReasonReadTotal)
		if n := s.Stats().Panics; n != 1 {
			t.Errorf("%d panics", n)
		}
	}},

	// A callback that takes its time delays no other connection's limits.
	{"OnTimeoutMayBlock", plain, func(t *testing.T, u under) {
		release, asked := make(chan bool), make(chan bool, 2)
		to := Only(limit, "HeaderTimeout")
		to.OnTimeout = func(net.Conn, *idle.TimeoutError) bool {
			asked <- true
			<-release
			return false
		}
		s := u.start(t, to, unreachable(t))
		c, d := s.Dial(), s.Dial()
		begun := c.Send("G")
		d.Send("G")
		Receive(t, asked)
		Receive(t, asked)
		close(release)
		for _, c := range []*Client{c, d} {
			NotBefore(t, c.Refused(408), begun, limit)
		}
	}},
}
