package idlefasthttp

import (
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/idle"
)

// forgetful returns a server that hands connections to handlers which forget them.
func forgetful() *fasthttp.Server {
	return &fasthttp.Server{KeepHijackedConns: true, Handler: func(ctx *fasthttp.RequestCtx) {
		ctx.Hijack(func(c net.Conn) { c.Write([]byte("ready")) })
	}}
}

// forgotten waits until c, which its handler has forgotten, is collected.
func (c *client) forgotten() {
	c.t.Helper()
	c.get("/")
	if _, err := io.ReadFull(c.in, make([]byte, len("ready"))); err != nil {
		c.t.Fatal(err)
	}
	eventually(c.t, "the connection is collected", func() bool {
		runtime.GC()
		c.SetReadDeadline(time.Now().Add(20 * ms))
		_, err := c.in.ReadByte()
		return err == io.EOF
	})
}

// TestForgottenHijack: with KeepHijackedConns a connection that its handler forgets
// is released, as by the bare server, and holds nothing else.
func TestForgottenHijack(t *testing.T) {
	t.Parallel()
	for name, set := range wraps {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := forgetful()
			set(f)
			s := startWith(t, f, limits(), f.TLSConfig != nil)
			s.dial(t).forgotten()
			s.noTimeout(t)
		})
	}
}

// TestFasthttpForgetsHijackedConns: what fasthttp itself does with them.
func TestFasthttpForgetsHijackedConns(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := forgetful()
	s := &server{fast: f, bare: ln, served: make(chan error, 1)}
	go func() { s.served <- f.Serve(ln) }()
	s.dial(t).forgotten()
	if err := f.Shutdown(); err != nil {
		t.Error(err)
	}
	receive(t, s.served)
}

// TestWatchShorterThanTheTick: Watch takes limits that are shorter than the tick of
// all others, and counts what it times out.
func TestWatchShorterThanTheTick(t *testing.T) {
	t.Parallel()
	hijack(t, limits(), func(t *testing.T, s *server, c net.Conn) {
		if err := s.Watch(c, idle.Policy{IdleTimeout: 50 * ms}, nil); err != nil {
			t.Error(err)
			return
		}
		var timeout *idle.TimeoutError
		if err := echo(c); !errors.As(err, &timeout) || timeout.Reason != idle.ReasonIdle {
			t.Error(err)
		}
	}, func(t *testing.T, s *server, c *client) {
		c.closed()
		s.wantPhase(t, "hijacked")
		s.wantReason(t, idle.ReasonIdle, 1)
	})
}

// TestWatchAfterTheEnd is refused if nothing is left that could watch.
func TestWatchAfterTheEnd(t *testing.T) {
	t.Parallel()
	conns := make(chan net.Conn, 1)
	s := start(t, &fasthttp.Server{KeepHijackedConns: true, Handler: func(ctx *fasthttp.RequestCtx) {
		ctx.Hijack(func(c net.Conn) { conns <- c })
	}}, limits())
	c := s.dial(t)
	c.get("/")
	kept := receive(t, conns)
	defer kept.Close()
	if err := s.Watch(kept, idle.Policy{IdleTimeout: time.Minute}, nil); err != nil {
		t.Error(err)
	}
	if err := s.Watch(kept, idle.Policy{}, nil); err != nil {
		t.Error(err)
	}
	s.shutdown(t)
	if err := s.Watch(kept, idle.Policy{IdleTimeout: time.Minute}, nil); err == nil || !strings.Contains(err.Error(), "listener") || !errors.Is(err, net.ErrClosed) {
		t.Errorf("Watch after the end of the listener gives %v", err)
	}
}
