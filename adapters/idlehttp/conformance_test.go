package idlehttp

import (
	"bufio"
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

func TestMain(m *testing.M)        { httpsuite.Main(m, "net/http.(*conn)") }
func TestConformance(t *testing.T) { httpsuite.Run(t, conforming) }

func TestProbeSavesMemory(t *testing.T) { httpsuite.ProbeSavesMemory(t, conforming) }

var conforming = httpsuite.Server{
	Package: "idlehttp",
	Flavours: []httpsuite.Flavour{
		{Name: "plain"},
		{Name: "tls", Secure: true},
		{Name: "tls listener", Secure: true, TLSListener: true, Rare: 2},
		{Name: "http2", Rare: 2}, // as well, without TLS
	},
	Prepare: func(c httpsuite.Config) (httpsuite.Setup, error) {
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.Handler(exchange{w, r}) })}
		switch c.Flavour.Name {
		case "http2":
			speak2(server, false)
		case "plain":
			server.Protocols = new(http.Protocols)
			server.Protocols.SetHTTP1(true)
		}
		return setup(server, c, c.Flavour.Secure && !c.Flavour.TLSListener)
	},
	Serve: func(ln net.Listener, t Timeouts, secure bool, certFile string, stop <-chan struct{}) (err error) {
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "served") })}
		server.ErrorLog = log.New(io.Discard, "", 0)
		go func() { <-stop; server.Close() }()
		if secure {
			server.TLSConfig = httpsuite.ServerTLS()
			err = ServeTLS(server, ln, certFile, "", t)
		} else {
			err = Serve(server, ln, t)
		}
		return ended(err)
	},
	Hooked: func(ln net.Listener, t Timeouts) (httpsuite.Hooked, func(net.Conn, http.ConnState), error) {
		server := &http.Server{}
		l, err := Wrap(server, ln, t)
		return l, server.ConnState, err
	},
	Phases: 7, Limits: 10, SpeaksHTTP2: true,
	CallsEarly: true, Cancels: true, WriteErrors: true, ZeroDeadlineLifts: true,
}

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

// An exchange is a request as httpsuite knows it.
type exchange struct {
	w http.ResponseWriter
	r *http.Request
}

func (q exchange) Path() string                      { return q.r.URL.Path }
func (q exchange) Body() io.Reader                   { return q.r.Body }
func (q exchange) TLS() bool                         { return q.r.TLS != nil && q.r.TLS.HandshakeComplete }
func (q exchange) Done() <-chan struct{}             { return q.r.Context().Done() }
func (q exchange) Write(b []byte) (int, error)       { return q.w.Write(b) }
func (q exchange) File(name string)                  { http.ServeFile(q.w, q.r, name) }
func (q exchange) Content(r io.ReadSeeker, size int) { http.ServeContent(q.w, q.r, "", time.Time{}, r) }

func (q exchange) Stream(write func(w io.Writer, flush func() error)) {
	write(q.w, http.NewResponseController(q.w).Flush)
}

func (q exchange) SetReadDeadline(t time.Time) error {
	return http.NewResponseController(q.w).SetReadDeadline(t)
}

func (q exchange) SetDeadline(t time.Time) error { return connOf(q.r).SetDeadline(t) }

func (q exchange) Hijack(use func(nc net.Conn, in *bufio.Reader)) {
	nc, rw, err := http.NewResponseController(q.w).Hijack()
	if err != nil {
		panic(err)
	}
	use(nc, rw.Reader)
}

func (q exchange) Watch(_ net.Conn, p idle.Policy, on Callbacks) error { return Watch(q.r, p, on) }

func (q exchange) SetLimits(limits RequestLimits) error { return SetLimits(q.r, limits) }

// A site is a server that is being served, for tests of what only this adapter does.
type site struct {
	*httpsuite.Site
	server  *http.Server
	another func() framed // connects again, in virtual time
	silent  func() framed // another, which doesn't say hello
}

// start serves h with the timeouts limits, until the end of the test, at which the counts
// have to add up. A line in the server's log fails the test.
func start(t testing.TB, secure bool, limits Timeouts, h http.HandlerFunc, prepare ...func(*http.Server)) *site {
	t.Helper()
	return startOn(t, httpsuite.Listen(t), secure, limits, h, prepare...)
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
