package httpsuite

import (
	"bufio"
	"bytes"
	"io"
	"log"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/adapters/idlefasthttp"
	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/idle"
)

// mute is for servers that have reason to log.
var mute = log.New(io.Discard, "", 0)

var netHTTP = server{
	pkg: "idlehttp",
	flavours: []flavour{
		{name: "plain"},
		{name: "tls", secure: true},
		{name: "tls listener", secure: true, tlsListener: true, rare: 2},
		{name: "http2", rare: 2}, // as well, without TLS
	},
	prepare: func(c config) (Setup, error) {
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.handler(httpRequest{w, r}) })}
		if !c.flavour.secure {
			s.Protocols = new(http.Protocols)
			s.Protocols.SetHTTP1(true)
			s.Protocols.SetUnencryptedHTTP2(c.flavour.name == "http2")
		}
		setup := NetHTTP(s, c.listener, c.flavour.secure && !c.flavour.tlsListener, c.log, c.idle)
		l, err := idlehttp.Wrap(s, c.listener, c.timeouts)
		return Limited(setup, l, err, idlehttp.Shutdown, idlehttp.LameDuck)
	},
	serve: func(ln net.Listener, t Timeouts, secure bool, certFile string, stop <-chan struct{}) (err error) {
		s := &http.Server{ErrorLog: mute}
		go func() { <-stop; s.Close() }()
		if secure {
			s.TLSConfig = ServerTLS()
			err = idlehttp.ServeTLS(s, ln, certFile, "", t)
		} else {
			err = idlehttp.Serve(s, ln, t)
		}
		if err == http.ErrServerClosed {
			err = nil
		}
		return err
	},
	callsEarly: true, cancels: true, writeErrors: true, zeroDeadlineLifts: true, speaksHTTP2: true,
}

// An httpRequest is a request of net/http.
type httpRequest struct {
	http.ResponseWriter
	r *http.Request
}

func (q httpRequest) Path() string          { return q.r.URL.Path }
func (q httpRequest) Body() io.Reader       { return q.r.Body }
func (q httpRequest) TLS() bool             { return q.r.TLS != nil && q.r.TLS.HandshakeComplete }
func (q httpRequest) Done() <-chan struct{} { return q.r.Context().Done() }
func (q httpRequest) File(name string)      { http.ServeFile(q, q.r, name) }

func (q httpRequest) Content(r io.ReadSeeker, size int) {
	http.ServeContent(q, q.r, "", time.Time{}, r)
}

func (q httpRequest) Stream(write func(w io.Writer, flush func() error)) {
	write(q, q.controller().Flush)
}

func (q httpRequest) controller() *http.ResponseController {
	return http.NewResponseController(q.ResponseWriter)
}

func (q httpRequest) SetReadDeadline(t time.Time) error { return q.controller().SetReadDeadline(t) }

func (q httpRequest) Hijack(use func(nc net.Conn, in *bufio.Reader)) {
	nc, rw, err := q.controller().Hijack()
	if err != nil {
		panic(err)
	}
	use(nc, rw.Reader)
}

func (q httpRequest) Watch(_ net.Conn, p idle.Policy, on httplimits.Callbacks) error {
	return idlehttp.Watch(q.r, p, on)
}

func (q httpRequest) SetLimits(l httplimits.RequestLimits) error { return idlehttp.SetLimits(q.r, l) }

var fastHTTP = server{
	pkg: "idlefasthttp",
	flavours: []flavour{
		{name: "plain"},
		{name: "tls", secure: true},
		{name: "wrapped", rare: 1},
		{name: "reduced", rare: 1},
		{name: "tls wrapped", secure: true, rare: 1},
		{name: "reduced wrapped", rare: 2},
		{name: "streams", rare: 2},
		{name: "tls streams", secure: true, rare: 2},
		{name: "tls reduced", secure: true, rare: 2},
		{name: "tls listener", secure: true, tlsListener: true, rare: 2},
		{name: "tls listener reduced", secure: true, tlsListener: true, rare: 2},
	},
	prepare: func(c config) (Setup, error) {
		has := func(word string) bool { return strings.Contains(c.flavour.name, word) }
		s := &fasthttp.Server{
			Handler:            func(ctx *fasthttp.RequestCtx) { c.handler(fastRequest{ctx}) },
			ReduceMemoryUsage:  has("reduced"),
			StreamRequestBody:  has("streams") || c.streamBodies,
			MaxRequestBodySize: 16 << 20,
		}
		setup := FastHTTP(s, c.listener, c.flavour.secure && !c.flavour.tlsListener, c.log, c.idle)
		if serve := setup.Serve; has("wrapped") {
			setup.Serve = func(l net.Listener) error { return serve(wrapping{l}) }
		}
		l, err := idlefasthttp.Wrap(s, c.listener, c.timeouts)
		return Limited(setup, l, err, idlefasthttp.Shutdown, idlefasthttp.LameDuck)
	},
	serve: func(ln net.Listener, t Timeouts, secure bool, certFile string, stop <-chan struct{}) error {
		s := &fasthttp.Server{Handler: func(*fasthttp.RequestCtx) {}, Logger: mute}
		go func() { <-stop; s.Shutdown() }()
		if secure {
			s.TLSConfig = ServerTLS()
			return idlefasthttp.ServeTLS(s, ln, certFile, "", t)
		}
		return idlefasthttp.Serve(s, ln, t)
	},
	tellsOfHeaders: true, firstHeaderInTLS: true, servesOn: true, logsTrailers: true, refusesPreface: true,
}

// A wrapping listener has connections in wrappers, such as netutil.LimitListener.
type wrapping struct{ net.Listener }

func (l wrapping) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return wrapper{c}, err
}

type wrapper struct{ net.Conn }

// A fastRequest is a request of fasthttp.
type fastRequest struct{ ctx *fasthttp.RequestCtx }

func (q fastRequest) Path() string                      { return string(q.ctx.Path()) }
func (q fastRequest) Done() <-chan struct{}             { return nil }
func (q fastRequest) Content(r io.ReadSeeker, size int) { q.ctx.SetBodyStream(r, size) }
func (q fastRequest) SetReadDeadline(t time.Time) error { return q.ctx.Conn().SetReadDeadline(t) }

// File does without a cache, which would keep the file open.
func (q fastRequest) File(name string) {
	dir, base := filepath.Split(name)
	fs := fasthttp.FS{Root: dir, SkipCache: true, PathRewrite: func(*fasthttp.RequestCtx) []byte { return []byte("/" + base) }}
	fs.NewRequestHandler()(q.ctx)
}

func (q fastRequest) Body() io.Reader {
	if body := q.ctx.RequestBodyStream(); body != nil {
		return body
	}
	return bytes.NewReader(q.ctx.PostBody())
}

func (q fastRequest) TLS() bool {
	state := q.ctx.TLSConnectionState()
	return q.ctx.IsTLS() && state != nil && state.HandshakeComplete
}

func (q fastRequest) Write(b []byte) (int, error) {
	if len(b) == len(Large) {
		q.ctx.Response.SetBodyRaw(b) // rather than a copy
		return len(b), nil
	}
	return q.ctx.Write(b)
}

func (q fastRequest) Stream(write func(w io.Writer, flush func() error)) {
	q.ctx.SetBodyStreamWriter(func(w *bufio.Writer) { write(w, w.Flush) })
}

func (q fastRequest) Hijack(use func(nc net.Conn, in *bufio.Reader)) {
	q.ctx.HijackSetNoResponse(true)
	q.ctx.Hijack(func(nc net.Conn) { use(nc, bufio.NewReader(nc)) })
}

func (q fastRequest) Watch(nc net.Conn, p idle.Policy, on httplimits.Callbacks) error {
	if nc == nil {
		nc = q.ctx.Conn()
	}
	return idlefasthttp.Watch(nc, p, on)
}

func (q fastRequest) SetLimits(l httplimits.RequestLimits) error {
	return idlefasthttp.SetLimits(q.ctx, l)
}
