package idlefasthttp

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// A spy is a listener by which one sees what a bare fasthttp server does to its
// connections, and in which order, its calls of hooks among them.
type spy struct {
	net.Listener
	mu     sync.Mutex
	events []string

	remote net.Addr          // what connections say of their peers, if not nil
	closes func(c *spyConn)  // called by Close of a connection
	fails  func(n int) error // what the nth Read of a connection fails with
}

// A spyConn is a connection of a spy. Like that of the adapter it is a pointer,
// and no *net.TCPConn.
type spyConn struct {
	net.Conn
	spy   *spy
	reads int
}

func (s *spy) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, fmt.Sprintf(format, args...))
}

func (s *spy) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

func (s *spy) Accept() (net.Conn, error) {
	nc, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &spyConn{Conn: nc, spy: s}, nil
}

func (c *spyConn) Read(b []byte) (n int, err error) {
	c.spy.note("Read")
	c.reads++
	if c.spy.fails != nil {
		if err := c.spy.fails(c.reads); err != nil {
			return 0, err
		}
	}
	return c.Conn.Read(b)
}

func (c *spyConn) Write(b []byte) (int, error) {
	line, _, _ := strings.Cut(string(b), "\r\n")
	c.spy.note("Write %s", line)
	return c.Conn.Write(b)
}

func (c *spyConn) Close() error {
	c.spy.note("Close")
	if c.spy.closes != nil {
		c.spy.closes(c)
	}
	return c.Conn.Close()
}

func (c *spyConn) RemoteAddr() net.Addr {
	if c.spy.remote != nil {
		return c.spy.remote
	}
	return c.Conn.RemoteAddr()
}

func (c *spyConn) SetDeadline(t time.Time) error {
	c.spy.note("SetDeadline %v", !t.IsZero())
	return c.Conn.SetDeadline(t)
}

func (c *spyConn) SetReadDeadline(t time.Time) error {
	c.spy.note("SetReadDeadline %v", !t.IsZero())
	return c.Conn.SetReadDeadline(t)
}

func (c *spyConn) SetWriteDeadline(t time.Time) error {
	c.spy.note("SetWriteDeadline %v", !t.IsZero())
	return c.Conn.SetWriteDeadline(t)
}

// bare serves f as it is on a spy's listener, until the test ends.
func bare(t testing.TB, f *fasthttp.Server, p *spy) *server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.Listener = ln
	s := &server{fast: f, served: make(chan error, 1)}
	if f.Logger == nil {
		f.Logger = s
	}
	handler, state, header := f.Handler, f.ConnState, f.HeaderReceived
	f.Handler = func(ctx *fasthttp.RequestCtx) {
		p.note("handler")
		if handler == nil {
			handler = hello
		}
		handler(ctx)
	}
	f.ConnState = func(nc net.Conn, to fasthttp.ConnState) {
		p.note("%v", to)
		if state != nil {
			state(nc, to)
		}
	}
	f.HeaderReceived = func(h *fasthttp.RequestHeader) (c fasthttp.RequestConfig) {
		p.note("header %d", h.ContentLength())
		if header != nil {
			c = header(h)
		}
		return c
	}
	s.bare = ln
	if f.TLSConfig != nil {
		f.TLSConfig, s.tls = tlsConfigs(t)
		go func() { s.served <- f.ServeTLS(p, "", "") }()
	} else {
		go func() { s.served <- f.Serve(p) }()
	}
	t.Cleanup(func() {
		s.down.Do(func() {
			s.settle(t)
			ctx, cancel := context.WithTimeout(context.Background(), ms)
			defer cancel()
			f.ShutdownWithContext(ctx)
		})
		receive(t, s.served)
		eventually(t, "all connections are gone", func() bool { return f.GetOpenConnectionsCount() <= 0 })
	})
	return s
}

// wants waits for events, and checks that they are the given ones.
func (s *spy) wants(t testing.TB, events ...string) {
	t.Helper()
	for end := time.Now().Add(patience); len(s.seen()) < len(events) && time.Now().Before(end); {
		time.Sleep(ms)
	}
	if seen := s.seen(); !slices.Equal(seen, events) {
		t.Errorf("fasthttp did\n%q, want\n%q", seen, events)
	}
}
