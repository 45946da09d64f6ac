package idlefasthttp

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/internal/httpconn"
	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/idle"
)

// wraps are the ways in which fasthttp hides a connection from hijackers.
var wraps = map[string]func(*fasthttp.Server){
	"plain":     func(*fasthttp.Server) {},
	"perIP":     func(f *fasthttp.Server) { f.MaxConnsPerIP = 100 },
	"tls":       func(f *fasthttp.Server) { f.TLSConfig = &tls.Config{} },
	"tls perIP": func(f *fasthttp.Server) { f.TLSConfig, f.MaxConnsPerIP = &tls.Config{}, 100 },
	"reduced":   func(f *fasthttp.Server) { f.ReduceMemoryUsage = true },
}

// hijack runs a test in which the server hands each connection to h. A client
// that says hello too late for the limits is cut: then it is inconclusive.
func hijack(t *testing.T, to Timeouts, h func(t *testing.T, s *server, c net.Conn), test func(t *testing.T, s *server, c *client)) {
	t.Helper()
	for name, set := range wraps {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s *server
			ready, done := make(chan struct{}), make(chan struct{})
			f := &fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) {
				if string(ctx.Path()) == "/hijack" {
					ctx.Hijack(func(c net.Conn) {
						defer close(done)
						<-ready
						h(t, s, c)
					})
				}
			}}
			set(f)
			s = startWith(t, f, to, f.TLSConfig != nil)
			close(ready)
			c := s.dial(intime.Of(t, limit/2))
			c.get("/") // it is not the first request that hijacks
			c.get("/hijack")
			c.t = t
			test(t, s, c)
			c.Close()
			receive(t, done)
		})
	}
}

// echo returns each byte, until it cannot.
func echo(c net.Conn) error {
	b := make([]byte, 1)
	for {
		if _, err := c.Read(b); err != nil {
			return err
		}
		if _, err := c.Write(b); err != nil {
			return err
		}
	}
}

// TestHijackedIsHandedOver: no limit is left, of whatever phase.
func TestHijackedIsHandedOver(t *testing.T) {
	t.Parallel()
	to := limits()
	rate := idle.Rate{BytesPerSecond: 1 << 20, Grace: limit}
	to.HandshakeTimeout, to.HeaderTimeout, to.BodyTimeout = 2*limit, 2*limit, limit
	to.KeepAliveTimeout, to.WriteTimeout, to.BodyRate, to.WriteRate = 2*limit, limit, rate, rate
	to.HandlerTimeout = 2 * limit
	hijack(t, to, func(t *testing.T, s *server, c net.Conn) { echo(c) }, func(t *testing.T, s *server, c *client) {
		for range 2 {
			time.Sleep(4 * limit)
			c.send("x")
			if b, err := c.in.ReadByte(); b != 'x' || err != nil {
				t.Fatal(b, err)
			}
		}
		s.noTimeout(t)
	})
}

// TestHijackedPolicy: a connection that is handed over can have a policy, and
// deadlines of its own.
func TestHijackedPolicy(t *testing.T) {
	t.Parallel()
	to := limits()
	to.Hijacked = idle.Policy{IdleTimeout: 2 * limit}
	got := make(chan error, len(wraps))
	hijack(t, to, func(t *testing.T, s *server, c net.Conn) {
		inTime := intime.Of(t, limit/2)
		b := make([]byte, 1)
		c.SetReadDeadline(time.Now().Add(limit / 3))
		_, err := c.Read(b)
		var timeout *idle.TimeoutError
		if ne, ok := err.(net.Error); !ok || !ne.Timeout() || errors.As(err, &timeout) {
			inTime.Errorf("the user's deadline gave %v", err)
		}
		if strings.Contains(t.Name(), "tls") {
			got <- nil // crypto/tls does not go on after a timeout
			return
		}
		c.SetReadDeadline(time.Time{})
		got <- echo(c)
	}, func(t *testing.T, s *server, c *client) {
		at := c.closed()
		if strings.Contains(t.Name(), "tls") {
			return
		}
		notBefore(t, at, c.sent, 2*limit)
		s.wantPhase(t, "hijacked")
	})
	t.Cleanup(func() {
		for range wraps {
			err := receive(t, got)
			var timeout *idle.TimeoutError
			if err != nil && (!errors.As(err, &timeout) || timeout.Phase != "hijacked" || timeout.Reason != idle.ReasonIdle) {
				t.Error(err)
			}
		}
	})
}

// TestWatch pings: who answers lives, and who does not is dropped.
func TestWatch(t *testing.T) {
	t.Parallel()
	hijack(t, limits(), func(t *testing.T, s *server, c net.Conn) {
		err := s.Watch(c, idle.Policy{Heartbeat: idle.Heartbeat{Interval: limit, Timeout: limit, Misses: 2}},
			func() error { _, err := c.Write([]byte("?")); return err })
		if err != nil {
			t.Error(err)
			return
		}
		b := make([]byte, 1)
		for err == nil {
			_, err = c.Read(b)
		}
		var timeout *idle.TimeoutError
		if !errors.As(err, &timeout) || timeout.Reason != idle.ReasonHeartbeat {
			t.Error(err)
		}
	}, func(t *testing.T, s *server, c *client) {
		inTime := intime.Of(t, limit/2)
		for range 4 {
			if b, err := c.in.ReadByte(); b != '?' || err != nil {
				inTime.Fatal(b, err)
			}
			c.send("!")
		}
		silent := time.Now()
		rest, err := io.ReadAll(c.in)
		if ne, ok := err.(net.Error); ok && ne.Timeout() || strings.Trim(string(rest), "?") != "" || len(rest) != 2 {
			inTime.Errorf("%q %v", rest, err)
		}
		notBefore(t, time.Now(), silent, 2*limit)
		eventually(t, "it is counted", func() bool { return s.Stats().Phases["hijacked"] == 1 })
		if st := s.Stats(); st.Pings < 6 || st.TimedOut[idle.ReasonHeartbeat] != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// TestWatchRefuses what makes no sense.
func TestWatchRefuses(t *testing.T) {
	t.Parallel()
	hijack(t, limits(), func(t *testing.T, s *server, c net.Conn) {
		ping := func() error { return nil }
		beats := idle.Policy{Heartbeat: idle.Heartbeat{Interval: limit, Timeout: limit}}
		a, b := net.Pipe()
		defer b.Close()
		defer a.Close()
		for want, err := range map[string]error{
			"idlefasthttp: Watch of a *net.pipe: ": s.Watch(a, beats, ping),
			"but ping is nil":                      s.Watch(c, beats, nil),
			"IdleTimeout is -1ns":                  s.Watch(c, idle.Policy{IdleTimeout: -1}, ping),
			"Heartbeat.Timeout is 0":               s.Watch(c, idle.Policy{Heartbeat: idle.Heartbeat{Interval: limit}}, ping),
		} {
			if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "idlefasthttp: ") {
				t.Errorf("%v does not contain %q", err, want)
			}
		}
		if err := s.Watch(a, beats, ping); !errors.Is(err, httpconn.ErrForeign) {
			t.Error(err)
		}
		echo(c)
	}, func(t *testing.T, s *server, c *client) {
		c.send("x") // no attempt has spoilt it
		if b, err := c.in.ReadByte(); b != 'x' || err != nil {
			t.Fatal(b, err)
		}
	})
}

// TestWatchWithoutHijack is refused, and does no harm.
func TestWatchWithoutHijack(t *testing.T) {
	t.Parallel()
	to := limits()
	to.HeaderTimeout = limit
	var s *server
	s = start(t, &fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) {
		if err := s.Watch(ctx.Conn(), idle.Policy{IdleTimeout: time.Minute}, nil); !errors.Is(err, httpconn.ErrForeign) {
			t.Errorf("got %v", err)
		}
	}}, to)
	c := s.dial(t)
	c.get("/")
	begun := time.Now()
	c.send("GET")
	notBefore(t, c.refused(408), begun, limit)
	s.wantPhase(t, "request header")
}

// TestKeptAfterHijack: with KeepHijackedConns a connection may be closed when it
// likes, and is counted until then if it has a limit.
func TestKeptAfterHijack(t *testing.T) {
	t.Parallel()
	conns := make(chan net.Conn, 1)
	to := limits()
	to.Hijacked = idle.Policy{IdleTimeout: time.Minute}
	s := start(t, &fasthttp.Server{KeepHijackedConns: true, Handler: func(ctx *fasthttp.RequestCtx) {
		ctx.HijackSetNoResponse(true)
		ctx.Hijack(func(c net.Conn) { conns <- c })
	}}, to)
	c := s.dial(t)
	c.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	kept := receive(t, conns)
	if _, err := kept.Write([]byte("raw")); err != nil {
		t.Error(err)
	}
	if b := make([]byte, 3); true {
		if _, err := io.ReadFull(c.in, b); string(b) != "raw" {
			t.Errorf("%q %v", b, err)
		}
	}
	if n := s.Stats().Live; n != 1 {
		t.Errorf("%d live", n)
	}
	kept.Close()
	c.closed()
	eventually(t, "it is gone", func() bool { return s.Stats().Gone == 1 })
}
