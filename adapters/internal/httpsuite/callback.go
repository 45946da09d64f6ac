package httpsuite

import (
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

var ofCallbacks = []promise{
	// A client passes the limit of each setting. OnTimeout is told what the limit was, and
	// can keep the connection for another limit's length, here twice. A handler that reads
	// or writes gets the same error in the end.
	{"EachSetting", usual, func(t *testing.T, u under) {
		body := Post(2*len(half)) + half
		for setting, test := range map[string]struct {
			sends, phase string
			reason       idle.Reason
			answer       int
			tells        bool
		}{
			"HandshakeTimeout": {"", "handshake", idle.ReasonReadTotal, 0, false},
			"HeaderTimeout":    {"G", "request header", idle.ReasonReadTotal, 408, false},
			"BodyTimeout":      {body, "request", idle.ReasonRead, 408, true},
			"BodyRate":         {body, "request", idle.ReasonMinReadRate, 408, true},
			"HandlerTimeout":   {Get("/long"), "request", idle.ReasonPhase, 503, false},
			"WriteTimeout":     {Get("/large"), "request", idle.ReasonWrite, 0, u.WriteErrors},
			"WriteRate":        {Get("/large"), "request", idle.ReasonMinWriteRate, 0, u.WriteErrors},
			"KeepAliveTimeout": {"", "keep-alive", idle.ReasonRead, 0, false},
			"IdleTimeout":      {Upgrade, "hijacked", idle.ReasonIdle, 0, true},
		} {
			t.Run(setting, func(t *testing.T) {
				t.Parallel()
				to := Only(limit, setting)
				to.BodyRate.BytesPerSecond, to.WriteRate.BytesPerSecond = 1<<30, 1<<30
				type question struct {
					peer string
					err  idle.TimeoutError
				}
				asked := make(chan question, 10)
				var before Gate // what comes before may take too long
				var early atomic.Uint64
				to.OnTimeout = func(c net.Conn, err *idle.TimeoutError) bool {
					if before.Keep(c, err) {
						early.Add(1)
						return true
					}
					asked <- question{c.RemoteAddr().String(), *err}
					return len(asked) < 3
				}
				release, told := make(chan bool), make(chan error, 1)
				large, ended := writeLarge()
				taken, lost := hijack(echoLines)
				s := u.start(t, to, func(r Request) {
					switch r.Path() {
					case "/long":
						<-release
					case "/large":
						large(r)
						told <- <-ended
					case "/hijack":
						taken(r)
					default:
						if _, err := io.Copy(io.Discard, r.Body()); err != nil {
							told <- err
						}
					}
				}, streamBodies)
				t.Cleanup(sync.OnceFunc(func() { close(release) }))
				c := s.DialBare()
				begun := c.Begun
				if setting != "HandshakeTimeout" {
					if u.Secure {
						c.Shake()
					}
					c.Narrow(16 << 10)
					begun = c.Send(Get("/"))
					c.Want(200)
				}
				before.Open()
				if test.sends != "" {
					begun = c.Send(test.sends)
				}
				Eventually(t, "it is asked three times", func() bool { return len(asked) == 3 })
				if test.answer != 0 {
					c.Refused(test.answer)
				} else {
					c.Drain()
				}
				NotBefore(t, time.Now(), begun, 3*limit)
				for range 3 {
					q := <-asked
					if q.peer != c.LocalAddr().String() || q.err.Limit != limit || q.err.Elapsed < limit {
						t.Errorf("asked of %s about %+v", q.peer, q.err)
					}
					WantTimeout(t, &q.err, test.phase, test.reason)
				}
				if setting == "IdleTimeout" {
					told = lost
				}
				if test.tells {
					WantTimeout(t, Receive(t, told), test.phase, test.reason)
				}
				s.WantOnly(1, test.phase, test.reason)
				if n := s.Stats().Kept - early.Load(); n != 2 {
					t.Errorf("kept %d times", n)
				}
			})
		}
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

	// What arrives while OnTimeout is asked averts the timeout if it is of the kind that does.
	{"OnTimeoutThatHesitates", usual, func(t *testing.T, u under) {
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
