package idlefasthttp

import (
	"fmt"
	"io"
	"log"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/idletest"
	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
)

func TestMain(m *testing.M) { httpsuite.Main(m, "fasthttp.(*Server)") }

// mute is for servers that have reason to log.
var mute = log.New(io.Discard, "", 0)

// hello is the usual handler.
func hello(ctx *fasthttp.RequestCtx) { fmt.Fprintf(ctx, "%s %d", ctx.Path(), len(ctx.PostBody())) }

// io.EOF is fasthttp's sign for the end.
func TestServeEndsWithEOF(t *testing.T) {
	httpsuite.NoError(t, Serve(&fasthttp.Server{Handler: hello, Logger: mute}, ended{httpsuite.Listen(t)}, Timeouts{}))
}

type ended struct{ net.Listener }

func (ended) Accept() (net.Conn, error) { return nil, io.EOF }

// TestServedByAnotherServer is refused at the first connection. Otherwise HandshakeTimeout would cut every connection.
func TestServedByAnotherServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipes := idletest.NewListener()
		l, err := Wrap(&fasthttp.Server{Handler: hello}, pipes, Timeouts{})
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error)
		go func() { served <- (&fasthttp.Server{Handler: hello}).Serve(l) }()
		client, err := pipes.Dial()
		if err != nil {
			t.Fatal(err)
		}
		httpsuite.WantError(t, <-served, "idlefasthttp: a connection has arrived, but the server that was prepared for the listener doesn't serve it")
		if _, err := client.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the connection isn't closed: %v", err)
		}
		l.Close()
		time.Sleep(time.Minute) // until fasthttp's workers have ended
	})
}

// TestOwnTimeoutsAfterWrap end Serve before it accepts anything.
func TestOwnTimeoutsAfterWrap(t *testing.T) {
	for want, set := range map[string]func(*fasthttp.Server){
		"idlefasthttp: Server.ReadTimeout is 1h0m0s; leave it 0":  func(s *fasthttp.Server) { s.ReadTimeout = time.Hour },
		"idlefasthttp: Server.WriteTimeout is 1h0m0s; leave it 0": func(s *fasthttp.Server) { s.WriteTimeout = time.Hour },
		"idlefasthttp: Server.IdleTimeout is 1h0m0s; leave it 0":  func(s *fasthttp.Server) { s.IdleTimeout = time.Hour },
		"idlefasthttp: Server.MaxConnsPerIP is 7; leave it 0":     func(s *fasthttp.Server) { s.MaxConnsPerIP = 7 },
	} {
		synctest.Test(t, func(t *testing.T) {
			pipes := idletest.NewListener()
			time.AfterFunc(time.Minute, func() { pipes.Close() })
			server := &fasthttp.Server{Handler: hello}
			l, err := Wrap(server, pipes, Timeouts{})
			if err != nil {
				t.Fatal(err)
			}
			set(server)
			httpsuite.WantError(t, server.Serve(l), want)
			l.Close()
			pipes.Close()
			time.Sleep(time.Minute)
		})
	}
}

// TestMaxConnsPerIP is refused: its wrapper hides connections with TLS.
func TestMaxConnsPerIP(t *testing.T) {
	_, err := Wrap(&fasthttp.Server{Handler: hello, MaxConnsPerIP: 7}, httpsuite.Listen(t), Timeouts{})
	httpsuite.WantError(t, err, "idlefasthttp: Server.MaxConnsPerIP is 7; leave it 0, and use PerKey of package adapters/admit")
}

// SetTimeouts refuses the timeout of HTTP/2 as Wrap does, and SetLimits a request
// that came another way.
func TestSteeringRefuses(t *testing.T) {
	t.Parallel()
	server := &fasthttp.Server{Handler: func(*fasthttp.RequestCtx) {}}
	l, err := Wrap(server, httpsuite.Listen(t), Timeouts{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	httpsuite.WantError(t, l.SetTimeouts(Timeouts{StreamTimeout: time.Minute}), "idlefasthttp: StreamTimeout is 1m0s")
	httpsuite.NoError(t, l.SetTimeouts(Timeouts{StreamTimeout: Off}))
	var ctx fasthttp.RequestCtx
	ctx.Init(&fasthttp.Request{}, nil, nil)
	httpsuite.WantError(t, SetLimits(&ctx, RequestLimits{}), "idlefasthttp: SetLimits: the request did not arrive on a listener of this package")
}
