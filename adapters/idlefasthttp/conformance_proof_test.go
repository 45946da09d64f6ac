//go:build proof

package idlefasthttp

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/internal/httpconn"
	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

func TestConformance(t *testing.T) { httpsuite.Run(t, conforming) }

var conforming = httpsuite.Server{
	Package: "idlefasthttp",
	Flavours: []httpsuite.Flavour{
		{Name: "plain"},
		{Name: "tls", Secure: true},
		{Name: "wrapped", Rare: 1},
		{Name: "reduced", Rare: 1},
		{Name: "tls wrapped", Secure: true, Rare: 1},
		{Name: "reduced wrapped", Rare: 2},
		{Name: "streams", Rare: 2},
		{Name: "tls streams", Secure: true, Rare: 2},
		{Name: "tls reduced", Secure: true, Rare: 2},
		{Name: "tls listener", Secure: true, TLSListener: true, Rare: 2},
		{Name: "tls listener reduced", Secure: true, TLSListener: true, Rare: 2},
	},
	Prepare: func(c httpsuite.Config) (httpsuite.Setup, error) {
		var l *Listener
		has := func(word string) bool { return strings.Contains(c.Flavour.Name, word) }
		f := &fasthttp.Server{
			Handler:            func(ctx *fasthttp.RequestCtx) { c.Handler(exchange{ctx, l}) },
			ReduceMemoryUsage:  has("reduced"),
			StreamRequestBody:  has("streams") || c.StreamBodies,
			MaxRequestBodySize: 16 << 20,
		}
		secure := c.Flavour.Secure && !c.Flavour.TLSListener
		s, err := setup(f, c, secure)
		if has("wrapped") {
			s.Serve = func() error { return serve(f, wrapping{s.Listener}, secure) }
		}
		l, _ = s.Listener.(*Listener)
		return s, err
	},
	Serve: func(ln net.Listener, t Timeouts, secure bool, certFile string, stop <-chan struct{}) error {
		f := &fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) { ctx.WriteString("served") }, Logger: mute}
		go func() { <-stop; f.Shutdown() }()
		if secure {
			f.TLSConfig = httpsuite.ServerTLS()
			return ServeTLS(f, ln, certFile, "", t)
		}
		return Serve(f, ln, t)
	},
	Hooked: func(ln net.Listener, t Timeouts) (httpsuite.Hooked, func(net.Conn, http.ConnState), error) {
		server := &fasthttp.Server{Handler: func(*fasthttp.RequestCtx) {}}
		l, err := Wrap(server, ln, t)
		serving := make(chan struct{})
		go server.Serve(until{closed: serving}) // or nobody may accept from l
		return hooked{l, sync.OnceFunc(func() { close(serving) })}, func(nc net.Conn, to http.ConnState) { server.ConnState(nc, fasthttp.ConnState(to)) }, err
	},
	Phases: 5, Limits: 9,
	FirstHeaderInTLS: true, ServesOn: true, LogsTrailers: true, RefusesPreface: true,
}

// An until is a listener that accepts nothing, until it's closed.
type until struct {
	net.Listener
	closed chan struct{}
}

func (l until) Accept() (net.Conn, error) {
	<-l.closed
	return nil, io.EOF
}

// A hooked listener lets its server go on serving until it's closed.
type hooked struct {
	*Listener
	stop func()
}

func (l hooked) Close() error {
	l.stop()
	return l.Listener.Close()
}

// setup prepares f, which speaks TLS by ServeTLS if secure, for the timeouts.
func setup(f *fasthttp.Server, c httpsuite.Config, secure bool) (httpsuite.Setup, error) {
	s := bareSetup(f, c.Listener, c, secure)
	l, err := Wrap(f, c.Listener, c.Timeouts)
	s.Listener = l
	s.Drain = func(ctx context.Context, d idle.Drain) error { return Shutdown(ctx, d, l) }
	s.Told = func() int { return httpconn.CountTold(l.inner) }
	s.LameDuck = func(ctx context.Context, d time.Duration) error { return LameDuck(ctx, d, l) }
	s.IsDraining = func() bool { return l.IsDraining() }
	s.Serve = func() error { return serve(f, l, secure) }
	return s, err
}

// bareSetup prepares f as it is.
func bareSetup(f *fasthttp.Server, ln net.Listener, c httpsuite.Config, secure bool) httpsuite.Setup {
	if f.Logger == nil {
		f.Logger = log.New(c.Log, "", 0)
	}
	if secure {
		f.TLSConfig = httpsuite.ServerTLS()
	}
	hook := f.ConnState
	f.ConnState = func(nc net.Conn, to fasthttp.ConnState) {
		if to == fasthttp.StateIdle {
			c.Idle()
		}
		if hook != nil {
			hook(nc, to)
		}
	}
	var once sync.Once
	shutdown := func(ctx context.Context) (err error) {
		once.Do(func() { err = f.ShutdownWithContext(ctx) })
		return err
	}
	return httpsuite.Setup{
		Listener: httpsuite.Unlimited(ln),
		Serve:    func() error { return serve(f, ln, secure) },
		Shutdown: shutdown,
		Close: func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*ms)
			defer cancel()
			shutdown(ctx) // a connection that is new would have 5 s
		},
	}
}

func serve(f *fasthttp.Server, ln net.Listener, secure bool) error {
	if secure {
		return f.ServeTLS(ln, "", "")
	}
	return f.Serve(ln)
}

// A wrapping listener has connections in wrappers, such as netutil.LimitListener.
type wrapping struct{ net.Listener }

func (l wrapping) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return wrapper{c}, err
}

type wrapper struct{ net.Conn }

// An exchange is a request as httpsuite knows it.
type exchange struct {
	ctx *fasthttp.RequestCtx
	l   *Listener
}

func (q exchange) Path() string { return string(q.ctx.Path()) }

func (q exchange) Done() <-chan struct{} { return nil }

func (q exchange) Content(r io.ReadSeeker, size int) { q.ctx.SetBodyStream(r, size) }

func (q exchange) SetReadDeadline(t time.Time) error { return q.ctx.Conn().SetReadDeadline(t) }

func (q exchange) SetDeadline(t time.Time) error { return q.ctx.Conn().SetDeadline(t) }

// File does without a cache, as that would keep the file open.
func (q exchange) File(name string) {
	dir, base := filepath.Split(name)
	fs := fasthttp.FS{Root: dir, SkipCache: true, PathRewrite: func(*fasthttp.RequestCtx) []byte { return []byte("/" + base) }}
	fs.NewRequestHandler()(q.ctx)
}

func (q exchange) Body() io.Reader {
	if body := q.ctx.RequestBodyStream(); body != nil {
		return body
	}
	return bytes.NewReader(q.ctx.PostBody())
}

func (q exchange) TLS() bool {
	state := q.ctx.TLSConnectionState()
	return q.ctx.IsTLS() && state != nil && state.HandshakeComplete
}

func (q exchange) Write(b []byte) (int, error) {
	if len(b) == len(httpsuite.Large) {
		q.ctx.Response.SetBodyRaw(b) // rather than a copy
		return len(b), nil
	}
	return q.ctx.Write(b)
}

func (q exchange) Stream(write func(w io.Writer, flush func() error)) {
	q.ctx.SetBodyStreamWriter(func(w *bufio.Writer) { write(w, w.Flush) })
}

func (q exchange) Hijack(use func(nc net.Conn, in *bufio.Reader)) {
	q.ctx.HijackSetNoResponse(true)
	q.ctx.Hijack(func(nc net.Conn) { use(nc, bufio.NewReader(nc)) })
}

func (q exchange) Watch(nc net.Conn, p idle.Policy, on Callbacks) error {
	if nc == nil {
		nc = q.ctx.Conn()
	}
	return Watch(nc, p, on)
}

func (q exchange) SetLimits(limits RequestLimits) error { return SetLimits(q.ctx, limits) }

const (
	ms       = time.Millisecond
	limit    = 300 * ms
	patience = httpsuite.Patience
)
