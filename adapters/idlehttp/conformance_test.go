package idlehttp

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpconn"
	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

func TestMain(m *testing.M) { httpsuite.Main(m, "net/http.(*conn)") }

// ended is what serving has ended with, nil if by the server's end.
func ended(err error) error {
	if err == http.ErrServerClosed {
		return nil
	}
	return err
}

// setup prepares server, which speaks TLS by ServeTLS if secure, for the timeouts.
func setup(server *http.Server, c httpsuite.Config, secure bool, prepare ...func(*http.Server)) (httpsuite.Setup, error) {
	s := bareSetup(server, c.Listener, c, secure, prepare...)
	l, err := Wrap(server, c.Listener, c.Timeouts)
	s.Listener = l
	s.Drain = func(ctx context.Context, d idle.Drain) error { return Shutdown(ctx, d, l) }
	s.Told = func() int { return httpconn.CountTold(l.inner) }
	s.LameDuck = func(ctx context.Context, d time.Duration) error { return LameDuck(ctx, d, l) }
	s.IsDraining = func() bool { return l.IsDraining() }
	s.Serve = func() error { return serve(server, l, secure) }
	return s, err
}

// bareSetup prepares server as it is.
func bareSetup(server *http.Server, ln net.Listener, c httpsuite.Config, secure bool, prepare ...func(*http.Server)) httpsuite.Setup {
	server.ErrorLog = log.New(c.Log, "", 0)
	if secure {
		server.TLSConfig = httpsuite.ServerTLS()
	}
	for _, f := range prepare {
		f(server)
	}
	watchIdle(server, c.Idle)
	open := new(atomic.Int64)
	hook := server.ConnState
	server.ConnState = func(nc net.Conn, to http.ConnState) {
		switch to {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed, http.StateHijacked:
			open.Add(-1)
		}
		hook(nc, to)
	}
	return httpsuite.Setup{
		Listener: httpsuite.Unlimited(ln), Shutdown: server.Shutdown, Close: func() { server.Close() }, Open: open.Load,
		Serve: func() error { return serve(server, ln, secure) },
	}
}

// serve serves ln, and returns nil when the server was ended.
func serve(server *http.Server, ln net.Listener, secure bool) error {
	if secure {
		return ended(server.ServeTLS(ln, "", ""))
	}
	return ended(server.Serve(ln))
}

// watchIdle has idle be called when a connection of server becomes idle.
func watchIdle(server *http.Server, idle func()) {
	hook := server.ConnState
	server.ConnState = func(nc net.Conn, to http.ConnState) {
		if to == http.StateIdle {
			idle()
		}
		if hook != nil {
			hook(nc, to)
		}
	}
}

// A site is a server that is being served, for tests of what only this adapter does.
type site struct {
	*httpsuite.Site
	server  *http.Server
	another func() framed // connects again, in virtual time
	silent  func() framed // another, which doesn't say hello
}

// startOn is start with a listener.
func startOn(t testing.TB, ln net.Listener, secure bool, limits Timeouts, h http.HandlerFunc, prepare ...func(*http.Server)) *site {
	t.Helper()
	server := &http.Server{Handler: h}
	return &site{server: server, Site: httpsuite.Start(t, secure, func(log io.Writer, idle func()) (httpsuite.Setup, error) {
		c := httpsuite.Config{Listener: ln, Timeouts: limits, Log: log, Idle: idle}
		return setup(server, c, secure, prepare...)
	})}
}

// unreachable is a handler for tests in which no request may reach one.
func unreachable(t testing.TB) http.HandlerFunc {
	return func(http.ResponseWriter, *http.Request) { t.Error("the handler is called") }
}

// echo answers with the body of the request.
func echo(w http.ResponseWriter, r *http.Request) {
	if b, err := io.ReadAll(r.Body); err == nil {
		w.Write(b)
	}
}

// silent returns a log that fails the test if anything is written to it.
func silent(t testing.TB) *log.Logger { return log.New(httpsuite.FailWriter{T: t}, "", 0) }

// all is every limit of a phase, as short as limit.
func all(limit time.Duration) Timeouts {
	t := httpsuite.All(limit)
	t.StreamTimeout = limit
	return t
}

const (
	ms       = time.Millisecond
	patience = httpsuite.Patience
)
