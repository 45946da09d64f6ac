package idlefasthttp

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/idle"
)

// shuttingDown calls Shutdown, of which it returns the error, and waits until no
// connection is accepted any more.
func (s *server) shuttingDown(t *testing.T, ctx context.Context) <-chan error {
	t.Helper()
	ended := make(chan error, 1)
	s.down.Do(func() {
		go func() { ended <- s.fast.ShutdownWithContext(ctx) }()
		if err := receive(t, s.served); err != nil {
			t.Error("Serve: ", err)
		}
	})
	return ended
}

// TestShutdownClosesIdleConnections at once, which is no timeout.
func TestShutdownClosesIdleConnections(t *testing.T) {
	t.Parallel()
	flavours(t, func(t *testing.T, start func(*fasthttp.Server, Timeouts) *server) {
		if raced && strings.Contains(t.Name(), "perIP") {
			t.Skip("fasthttp itself has a race: see settle")
		}
		s := start(&fasthttp.Server{}, limits())
		var clients []*client
		for range 5 {
			c := s.dial(t)
			c.get("/")
			clients = append(clients, c)
		}
		if err := receive(t, s.shuttingDown(t, context.Background())); err != nil {
			t.Error(err)
		}
		for _, c := range clients {
			c.closed()
		}
		eventually(t, "all are gone", func() bool { return s.Stats().Gone == 5 })
		s.noTimeout(t)
	})
}

// TestLimitsGoOnDuringShutdown: else a slow client would hold it up for ever.
func TestLimitsGoOnDuringShutdown(t *testing.T) {
	t.Parallel()
	for phase, sends := range map[string]string{"handshake": "", "request header": "G", "request": post(3) + "a"} {
		t.Run(phase, func(t *testing.T) {
			t.Parallel()
			to := limits()
			to.HandshakeTimeout, to.HeaderTimeout, to.BodyTimeout = 2*limit, 2*limit, 2*limit
			s := start(t, &fasthttp.Server{}, to)
			begun := time.Now()
			c := s.dial(t)
			c.send(sends)
			eventually(t, "it is accepted", func() bool { return s.Stats().Live == 1 })
			time.Sleep(50 * ms) // and served
			down := s.shuttingDown(t, context.Background())
			if sends == "" {
				c.closed()
			} else {
				c.refused(408)
			}
			notBefore(t, time.Now(), begun, 2*limit)
			if err := receive(t, down); err != nil {
				t.Error(err)
			}
			s.wantPhase(t, phase)
		})
	}
}

// TestShutdownLetsRequestsFinish, and the timeouts of one that gave up waiting go on.
func TestShutdownLetsRequestsFinish(t *testing.T) {
	t.Parallel()
	to := limits()
	to.KeepAliveTimeout = 2 * limit
	proceed := make(chan struct{})
	s := start(t, &fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) { <-proceed; hello(ctx) }}, to)
	c := s.dial(t)
	c.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
	eventually(t, "it is served", func() bool { return s.fast.GetCurrentConcurrency() == 1 })
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := receive(t, s.shuttingDown(t, ctx)); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	begun := time.Now()
	close(proceed)
	if got := c.response(200); got != "/a 0" {
		t.Error(got)
	}
	notBefore(t, c.closed(), begun, 2*limit) // nobody closes it but us
	s.wantPhase(t, "keep-alive")
}

// TestHijackedOutlivesShutdown, and so do its limits.
func TestHijackedOutlivesShutdown(t *testing.T) {
	t.Parallel()
	to := limits()
	to.Hijacked = idle.Policy{IdleTimeout: limit}
	var echoed gate
	to.OnTimeout = echoed.keep
	got := make(chan error, 1)
	s := start(t, &fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) {
		ctx.Hijack(func(c net.Conn) { got <- echo(c) })
	}}, to)
	c := s.dial(t)
	c.get("/")
	if err := receive(t, s.shuttingDown(t, context.Background())); err != nil {
		t.Error(err)
	}
	c.send("x")
	if b, err := c.in.ReadByte(); b != 'x' || err != nil {
		t.Error(b, err)
	}
	echoed.open()
	c.closed()
	var timeout *idle.TimeoutError
	if err := receive(t, got); !errors.As(err, &timeout) {
		t.Error(err)
	}
	s.wantPhase(t, "hijacked")
}

// A broken listener fails to accept, and tells whether it was closed.
type broken struct {
	net.Listener
	err    error
	closed chan struct{}
}

func (b *broken) Accept() (net.Conn, error) { return nil, b.err }
func (b *broken) Close() error              { close(b.closed); return nil }

// TestServeFails as the server's own does, and leaves nothing: see TestMain.
func TestServeFails(t *testing.T) {
	t.Parallel()
	broke := errors.New("broken on purpose")
	for _, err := range []error{broke, io.EOF} {
		b := &broken{err: err, closed: make(chan struct{})}
		got := Serve(&fasthttp.Server{Handler: hello, Logger: mute}, b, Timeouts{})
		if err == io.EOF {
			err = nil // which is fasthttp's sign for the end
		}
		if got != err {
			t.Errorf("got %v, want %v", got, err)
		}
		receive(t, b.closed)
	}
	b := &broken{err: broke, closed: make(chan struct{})}
	if err := ServeTLS(&fasthttp.Server{Handler: hello}, b, "no such file", "", Timeouts{}); err == nil {
		t.Error("served without a certificate")
	}
	receive(t, b.closed)
}

// A passing listener fails a few times before each connection, as one does for
// which no descriptor is left.
type passing struct {
	net.Listener
	fail []error
}

func (p *passing) Accept() (net.Conn, error) {
	if len(p.fail) > 0 {
		err := p.fail[0]
		p.fail = p.fail[1:]
		return nil, err
	}
	return p.Listener.Accept()
}

// TestServeOutlastsALackOfDescriptors, and other errors that pass.
func TestServeOutlastsALackOfDescriptors(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	lack := &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	served := make(chan error, 1)
	f := &fasthttp.Server{Handler: hello, Logger: mute}
	go func() { served <- Serve(f, &passing{ln, []error{lack, lack, lack}}, Timeouts{}) }()
	nc, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(patience))
	if got := on(t, nc).get("/a"); got != "/a 0" {
		t.Error(got)
	}
	nc.Close()
	if err := f.Shutdown(); err != nil {
		t.Error(err)
	}
	if err := receive(t, served); err != nil {
		t.Error(err)
	}
}

// TestServe is the whole of it, by the functions that the README shows.
func TestServe(t *testing.T) {
	t.Parallel()
	server, _ := tlsConfigs(t)
	for _, secure := range []bool{false, true} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		f := &fasthttp.Server{Handler: hello, Logger: mute}
		served := make(chan error, 1)
		if secure {
			f.TLSConfig = server
			go func() { served <- ServeTLS(f, ln, "", "", Timeouts{HandshakeTimeout: limit}) }()
		} else {
			go func() { served <- Serve(f, ln, Timeouts{HandshakeTimeout: limit}) }()
		}
		begun := time.Now()
		nc, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		nc.SetDeadline(time.Now().Add(patience))
		notBefore(t, on(t, nc).closed(), begun, limit)
		if err := f.Shutdown(); err != nil {
			t.Error(err)
		}
		if err := receive(t, served); err != nil {
			t.Error(err)
		}
	}
}

// TestServedAgain: a server that was shut down can serve another listener.
func TestServedAgain(t *testing.T) {
	t.Parallel()
	f := &fasthttp.Server{Handler: hello}
	to := limits()
	to.KeepAliveTimeout = limit
	for range 2 {
		s := start(t, f, to)
		c := s.dial(t)
		c.get("/")
		c.closed()
		s.wantPhase(t, "keep-alive")
		s.shutdown(t)
	}
}

// TestTrackerEndsWithTheLastConnection, and not with the listener.
func TestTrackerEndsWithTheLastConnection(t *testing.T) {
	// Not parallel: it counts the trackers.
	trackers := func() int {
		b := make([]byte, 1<<20)
		return strings.Count(string(b[:runtime.Stack(b, true)]), "idle.(*Tracker).drive(")
	}
	before := trackers()
	to := limits()
	to.Hijacked = idle.Policy{IdleTimeout: time.Minute}
	s := start(t, &fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) {
		ctx.Hijack(func(c net.Conn) { echo(c) })
	}}, to)
	c := s.dial(t)
	c.get("/")
	eventually(t, "there is one more", func() bool { return trackers() == before+1 })
	if err := receive(t, s.shuttingDown(t, context.Background())); err != nil {
		t.Error(err)
	}
	time.Sleep(100 * ms)
	if trackers() != before+1 {
		t.Error("the tracker has ended before its connection")
	}
	c.Close()
	eventually(t, "it has ended", func() bool { return trackers() == before })
}
