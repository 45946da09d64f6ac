package idlefasthttp

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
)

// More about fasthttp alone: what it does with whole connections.

// TestFasthttpHandsOverWithoutDeadlines: SetDeadline comes before the handler
// runs, Hijacked at any time, and Closed never.
func TestFasthttpHandsOverWithoutDeadlines(t *testing.T) {
	t.Parallel()
	var p spy
	ran := make(chan struct{})
	c := bare(t, &fasthttp.Server{
		Handler: func(ctx *fasthttp.RequestCtx) {
			ctx.Hijack(func(c net.Conn) {
				p.Note("hijacked's own")
				if _, ok := c.(interface{ UnsafeConn() net.Conn }); !ok {
					t.Errorf("a %T has no UnsafeConn", c)
				}
				c.Close() // does nothing
				close(ran)
			})
		},
		ConnState: func(_ net.Conn, to fasthttp.ConnState) {
			if to == fasthttp.StateHijacked {
				<-ran // so it may come after everything else
			}
		},
	}, &p).Dial()
	c.Send(httpsuite.Get("/"))
	c.Response()
	httpsuite.Receive(t, ran)
	c.WantClosed()
	time.Sleep(50 * ms)
	seen := p.seen()
	deadline, handler := slices.Index(seen, "deadline zero"), slices.Index(seen, "hijacked's own")
	if deadline < 0 || handler < deadline || slices.Contains(seen, "closed") || strings.Count(strings.Join(seen, " "), "close") != 1 {
		t.Errorf("%q", seen)
	}
	// The state may be told while, before or after the handler runs: only that
	// it is told is sure.
	httpsuite.Eventually(t, "hijacked is told", func() bool { return slices.Contains(p.seen(), "hijacked") })
}

// TestFasthttpPoolsItsWrappers: with MaxConnsPerIP, hooks get a wrapper which by
// and by is that of another connection. It hides the connection, but if it
// carries TLS, and is told of after it was closed.
func TestFasthttpPoolsItsWrappers(t *testing.T) {
	t.Parallel()
	for _, config := range []*tls.Config{nil, {}} {
		conns := make(chan net.Conn, 1)
		var p spy
		s := bare(t, &fasthttp.Server{MaxConnsPerIP: 5, TLSConfig: config, ConnState: func(nc net.Conn, to fasthttp.ConnState) {
			if to == fasthttp.StateNew {
				conns <- nc
			}
		}}, &p)
		seen := map[net.Conn]bool{}
		again := false
		for range 100 { // the race detector has pools forget
			c := s.Dial()
			c.Get("/")
			c.Close()
			nc := httpsuite.Receive(t, conns)
			if _, ok := nc.(*httpsuite.Spy); ok {
				t.Fatal("the connection is not wrapped")
			}
			if _, ok := nc.(interface{ NetConn() net.Conn }); ok != (config != nil) {
				t.Fatalf("a %T has NetConn: %v", nc, ok)
			}
			if _, ok := nc.(*tls.Conn); ok {
				t.Fatal("TLS is not wrapped")
			}
			if again = seen[nc]; again {
				break
			}
			seen[nc] = true
			httpsuite.Eventually(t, "it is closed", func() bool { return s.fast.GetOpenConnectionsCount() == 0 })
		}
		if !again {
			t.Error("none was used again")
		}
	}
}

// TestFasthttpCountsTCPAddrsOnly: MaxConnsPerIP, and RemoteIP, work for a
// *net.TCPAddr and nothing else.
func TestFasthttpCountsTCPAddrsOnly(t *testing.T) {
	t.Parallel()
	var p spy
	p.Remote = &net.IPAddr{IP: net.IPv4(1, 2, 3, 4)}
	got := make(chan net.Conn, 1)
	s := bare(t, &fasthttp.Server{MaxConnsPerIP: 1,
		Handler: func(ctx *fasthttp.RequestCtx) { ctx.WriteString(ctx.RemoteIP().String()) },
		ConnState: func(nc net.Conn, to fasthttp.ConnState) {
			if to == fasthttp.StateNew {
				got <- nc
			}
		},
	}, &p)
	c := s.Dial()
	if ip := c.Get("/"); ip != "0.0.0.0" {
		t.Error(ip)
	}
	if nc, ok := httpsuite.Receive(t, got).(*httpsuite.Spy); !ok {
		t.Errorf("it is wrapped: %T", nc)
	}
	c.Close()
}

// TestFasthttpRefuses: a connection too many for an address gets no state at
// all; one too many for the server does, and both are closed.
func TestFasthttpRefuses(t *testing.T) {
	t.Parallel()
	var p, q spy
	s := bare(t, &fasthttp.Server{MaxConnsPerIP: 1}, &p)
	a := s.Dial()
	a.Get("/")
	before := len(p.seen())
	b := s.Dial()
	b.Want(429)
	b.WantClosed()
	if seen := p.seen()[before:]; slices.Contains(seen, "new") || slices.Contains(seen, "closed") || !slices.Contains(seen, "close") {
		t.Errorf("%q", seen)
	}
	a.Close()

	s = bare(t, &fasthttp.Server{Concurrency: 1}, &q)
	a = s.Dial()
	a.Get("/")
	q.wants(t, "new", "active", "read", "header -2", "handler", "write HTTP/1.1 200 OK", "idle", "read")
	before = len(q.seen())
	b = s.Dial()
	b.Want(503)
	b.WantClosed()
	httpsuite.Eventually(t, "it is closed", func() bool { return slices.Contains(q.seen(), "closed") })
	if seen := q.seen()[before:]; seen[0] != "new" || slices.Contains(seen, "active") || seen[len(seen)-2] != "close" {
		t.Errorf("%q", seen)
	}
	a.Close()
}

// TestFasthttpClosesIdleOnesUnderALock: whatever Close of a connection calls
// must not wait for the server.
func TestFasthttpClosesIdleOnesUnderALock(t *testing.T) {
	t.Parallel()
	var p spy
	var f *fasthttp.Server
	closed, second := make(chan bool, 2), make(chan error, 1)
	p.Closes = func() {
		b := make([]byte, 10<<10)
		if !strings.Contains(string(b[:runtime.Stack(b, false)]), "Shutdown") {
			return
		}
		go func() { second <- f.Shutdown() }()
		select {
		case <-second:
			closed <- false
		case <-time.After(100 * ms):
			closed <- true
		}
	}
	f = &fasthttp.Server{}
	s := bare(t, f, &p)
	c := s.Dial()
	c.Get("/")
	if err := f.Shutdown(); err != nil {
		t.Error(err)
	}
	if !httpsuite.Receive(t, closed) {
		t.Error("there was no lock")
	}
	httpsuite.Receive(t, second)
	c.WantClosed()
}

// TestFasthttpWaitsForNewConnections: Shutdown takes one that has sent nothing
// for busy for 5 s. The adapter's limit of that phase is often shorter.
func TestFasthttpWaitsForNewConnections(t *testing.T) {
	t.Parallel()
	var p spy
	f := &fasthttp.Server{}
	s := bare(t, f, &p)
	c := s.Dial()
	p.wants(t, "new", "active", "read")
	ctx, cancel := context.WithTimeout(context.Background(), 300*ms)
	defer cancel()
	if err := f.ShutdownWithContext(ctx); err != context.DeadlineExceeded {
		t.Error(err)
	}
	c.Close()
}

// TestFasthttpStreamsLargeBodies: the handler begins when some of the body is
// there, and reads on by itself.
func TestFasthttpStreamsLargeBodies(t *testing.T) {
	t.Parallel()
	const size = 64 << 10
	var p spy
	c := bare(t, &fasthttp.Server{StreamRequestBody: true, Handler: func(ctx *fasthttp.RequestCtx) {
		p.Note("streaming")
		n, err := io.Copy(io.Discard, ctx.RequestBodyStream())
		if n != size || err != nil {
			t.Error(n, err)
		}
	}}, &p).Dial()
	c.Send(httpsuite.Post(size) + strings.Repeat("x", size/2))
	httpsuite.Eventually(t, "the handler waits", func() bool {
		seen := p.seen()
		i := slices.Index(seen, "streaming")
		return i > 0 && slices.Contains(seen[i:], "read")
	})
	c.Send(strings.Repeat("x", size/2))
	c.Want(200)
	c.Close()
}
