package idlefasthttp

import (
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/idle"
)

// onTimeout is an OnTimeout that only wants the error.
func onTimeout(f func(*idle.TimeoutError) bool) func(net.Conn, *idle.TimeoutError) bool {
	return func(_ net.Conn, err *idle.TimeoutError) bool { return f(err) }
}

// TestOnTimeoutIsTold which limit it was, of which connection.
func TestOnTimeoutIsTold(t *testing.T) {
	t.Parallel()
	get := "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	for phase, test := range map[string]struct {
		sends  string
		reason idle.Reason
		set    func(*Timeouts)
	}{
		"handshake":      {"", idle.ReasonReadTotal, func(to *Timeouts) { to.HandshakeTimeout = limit }},
		"request header": {"G", idle.ReasonReadTotal, func(to *Timeouts) { to.HeaderTimeout = limit }},
		"request":        {post(3), idle.ReasonRead, func(to *Timeouts) { to.BodyTimeout = limit }},
		"keep-alive":     {get, idle.ReasonRead, func(to *Timeouts) { to.KeepAliveTimeout = limit }},
	} {
		t.Run(phase, func(t *testing.T) {
			t.Parallel()
			to := limits()
			test.set(&to)
			type call struct {
				addr string
				err  idle.TimeoutError
			}
			calls := make(chan call, 9)
			to.OnTimeout = func(c net.Conn, err *idle.TimeoutError) bool {
				calls <- call{c.RemoteAddr().String(), *err}
				return false
			}
			s := start(t, &fasthttp.Server{}, to)
			c := s.dial(t)
			c.send(test.sends)
			got := receive(t, calls)
			if got.addr != c.LocalAddr().String() || got.err.Phase != phase || got.err.Reason != test.reason || got.err.Limit != limit || got.err.Elapsed < limit {
				t.Errorf("%+v", got)
			}
			s.wantPhase(t, phase)
			if len(calls) > 0 {
				t.Errorf("called again: %+v", <-calls)
			}
		})
	}
}

// TestOnTimeoutKeeps: the limit begins anew, and the request goes on as if
// nothing were.
func TestOnTimeoutKeeps(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	to := limits()
	to.HandshakeTimeout, to.HeaderTimeout, to.BodyTimeout, to.KeepAliveTimeout = limit, limit, limit, limit
	to.OnTimeout = func(net.Conn, *idle.TimeoutError) bool { asked.Add(1); return true }
	s := start(t, &fasthttp.Server{}, to)
	begun := time.Now()
	c := s.dial(t)
	header, body := post(6)[:10], post(6)[10:]
	for i, part := range []string{"", header, body + "abc", "def"} {
		c.send(part)
		n := asked.Load()
		eventually(t, "it is asked twice", func() bool { return asked.Load() >= n+2 })
		if i == 0 {
			notBefore(t, time.Now(), begun, 2*limit)
		}
	}
	if got := c.response(200); got != "/ 6" {
		t.Error(got)
	}
	if st := s.Stats(); st.Kept < 8 || len(st.TimedOut) > 0 {
		t.Errorf("%+v", st)
	}
	c.Close()
}

// TestOnTimeoutThatHesitates: what arrives meanwhile averts the timeout if it is
// of the kind that does; a header is not.
func TestOnTimeoutThatHesitates(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan struct{}), make(chan bool)
	to := limits()
	to.KeepAliveTimeout = limit
	to.OnTimeout = func(net.Conn, *idle.TimeoutError) bool {
		asked <- struct{}{}
		return <-answer
	}
	s := start(t, &fasthttp.Server{}, to)
	c := s.dial(t)
	c.get("/")
	receive(t, asked)
	c.get("/") // while it is asked
	answer <- false
	receive(t, asked) // so it has not been closed
	answer <- false
	c.closed()
	s.wantPhase(t, "keep-alive")
}

// TestOnTimeoutThatPanics counts as a no.
func TestOnTimeoutThatPanics(t *testing.T) {
	t.Parallel()
	to := limits()
	to.HeaderTimeout = limit
	to.Idle.Logger = quiet
	to.OnTimeout = func(net.Conn, *idle.TimeoutError) bool { panic("of the user's") }
	s := start(t, &fasthttp.Server{}, to)
	c := s.dial(t)
	c.send("G")
	c.refused(408)
	s.wantPhase(t, "request header")
	if n := s.Stats().Panics; n != 1 {
		t.Errorf("%d panics", n)
	}
}

// TestCounts has a connection end in each way.
func TestCounts(t *testing.T) {
	t.Parallel()
	to := limits()
	to.HandshakeTimeout, to.HeaderTimeout, to.BodyTimeout, to.KeepAliveTimeout = limit, limit, limit, limit
	var all gate // or some may be cut before they have said what they mean to
	to.OnTimeout = all.keep
	s := start(t, &fasthttp.Server{}, to)
	for _, text := range []string{"", "G", "GET", post(3), "GET / HTTP/1.1\r\nHost: a\r\n\r\n"} {
		s.dial(t).send(text)
	}
	c := s.dial(t)
	c.get("/")
	c.Close()
	eventually(t, "one is gone", func() bool { return s.Stats().Gone == 1 })
	all.open()
	eventually(t, "all are gone", func() bool { return s.Stats().Live == 0 && s.Stats().Tracked == 6 })
	s.addsUp(t)
	st := s.Stats()
	if st.Gone != 1 || st.TimedOut[idle.ReasonReadTotal] != 3 || st.TimedOut[idle.ReasonRead] != 2 {
		t.Errorf("%+v", st)
	}
	want := map[string]uint64{"handshake": 1, "request header": 2, "request": 1, "keep-alive": 1}
	for phase, n := range st.Phases {
		if n != want[phase] {
			t.Errorf("%d timeouts of the %s, want %d", n, phase, want[phase])
		}
	}
}
