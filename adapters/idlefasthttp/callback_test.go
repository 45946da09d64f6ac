package idlefasthttp

import (
	"errors"
	"io"
	"net"
	"strings"
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

// TestEachSetting has a client pass the limit of each setting. OnTimeout and a handler
// that reads are told the setting, and Stats counts it.
func TestEachSetting(t *testing.T) {
	t.Parallel()
	get := func(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n" }
	half := post(100<<10) + strings.Repeat("x", 50<<10) // fasthttp itself reads the first 8 KB
	rate := idle.Rate{BytesPerSecond: 1 << 30, Grace: limit}
	for setting, test := range map[string]struct {
		sends, phase string
		reason       idle.Reason
		set          func(*Timeouts)
		reads        bool
	}{
		"HandshakeTimeout": {"", "handshake", idle.ReasonReadTotal, func(to *Timeouts) { to.HandshakeTimeout = limit }, false},
		"HeaderTimeout":    {"G", "request header", idle.ReasonReadTotal, func(to *Timeouts) { to.HeaderTimeout = limit }, false},
		"BodyTimeout":      {half, "request", idle.ReasonRead, func(to *Timeouts) { to.BodyTimeout = limit }, true},
		"BodyRate":         {half, "request", idle.ReasonMinReadRate, func(to *Timeouts) { to.BodyRate = rate }, true},
		"HandlerTimeout":   {get("/long"), "request", idle.ReasonPhase, func(to *Timeouts) { to.HandlerTimeout = limit }, false},
		"WriteTimeout":     {get("/large"), "request", idle.ReasonWrite, func(to *Timeouts) { to.WriteTimeout = limit }, false},
		"WriteRate":        {get("/large"), "request", idle.ReasonMinWriteRate, func(to *Timeouts) { to.WriteRate = rate }, false},
		"KeepAliveTimeout": {get("/"), "keep-alive", idle.ReasonRead, func(to *Timeouts) { to.KeepAliveTimeout = limit }, false},
		"IdleTimeout":      {get("/hijack"), "hijacked", idle.ReasonIdle, func(to *Timeouts) { to.Hijacked.IdleTimeout = limit }, true},
	} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			to := limits()
			test.set(&to)
			type call struct {
				addr string
				err  idle.TimeoutError
			}
			calls, long, read := make(chan call, 9), make(chan struct{}), make(chan error, 1)
			t.Cleanup(func() { close(long) })
			to.OnTimeout = func(c net.Conn, err *idle.TimeoutError) bool {
				calls <- call{c.RemoteAddr().String(), *err}
				return false
			}
			s := start(t, &fasthttp.Server{StreamRequestBody: true, Handler: func(ctx *fasthttp.RequestCtx) {
				switch string(ctx.Path()) {
				case "/long":
					<-long
				case "/large":
					sendLarge(ctx)
				case "/hijack":
					ctx.Hijack(func(c net.Conn) {
						_, err := io.Copy(io.Discard, c)
						read <- err
					})
				default:
					if body := ctx.RequestBodyStream(); body != nil {
						_, err := io.Copy(io.Discard, body)
						read <- err
					}
				}
			}}, to)
			c := s.dial(t)
			c.send(test.sends)
			got := receive(t, calls)
			if got.addr != c.LocalAddr().String() || got.err.Phase != test.phase || got.err.Reason != test.reason || got.err.Setting != setting ||
				got.err.Limit != limit || got.err.Elapsed < limit {
				t.Errorf("%+v", got)
			}
			if test.reads {
				var timeout *idle.TimeoutError
				if err := receive(t, read); !errors.As(err, &timeout) || !strings.HasPrefix(timeout.Error(), "i/o timeout: "+test.phase+": "+setting+" of ") {
					t.Errorf("the handler got %v", err)
				}
			}
			s.wantPhase(t, test.phase)
			for name, n := range s.Stats().Limits {
				if (name == setting) != (n == 1) || n > 1 {
					t.Errorf("%d timed out by %s", n, name)
				}
			}
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
