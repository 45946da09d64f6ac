//go:build proof

package idlehttp

import (
	"bufio"
	"io"
	"log"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

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
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.Handler(view{w, r}) })}
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
		if err == nil {
			server.BaseContext(l) // as if it served l
		}
		return l, server.ConnState, err
	},
	Phases: 7, Limits: 10, SpeaksHTTP2: true,
	CallsEarly: true, Cancels: true, WriteErrors: true, ZeroDeadlineLifts: true,
}

// An view is a request as httpsuite knows it.
type view struct {
	w http.ResponseWriter
	r *http.Request
}

func (q view) Path() string { return q.r.URL.Path }

func (q view) Body() io.Reader { return q.r.Body }

func (q view) TLS() bool { return q.r.TLS != nil && q.r.TLS.HandshakeComplete }

func (q view) Done() <-chan struct{} { return q.r.Context().Done() }

func (q view) Write(b []byte) (int, error) { return q.w.Write(b) }

func (q view) File(name string) { http.ServeFile(q.w, q.r, name) }

func (q view) Content(r io.ReadSeeker, size int) { http.ServeContent(q.w, q.r, "", time.Time{}, r) }

func (q view) Stream(write func(w io.Writer, flush func() error)) {
	write(q.w, http.NewResponseController(q.w).Flush)
}

func (q view) SetReadDeadline(t time.Time) error {
	return http.NewResponseController(q.w).SetReadDeadline(t)
}

func (q view) SetDeadline(t time.Time) error { return connOf(q.r).SetDeadline(t) }

func (q view) Hijack(use func(nc net.Conn, in *bufio.Reader)) {
	nc, rw, err := http.NewResponseController(q.w).Hijack()
	if err != nil {
		panic(err)
	}
	use(nc, rw.Reader)
}

func (q view) Watch(_ net.Conn, p idle.Policy, on Callbacks) error { return Watch(q.r, p, on) }

func (q view) SetLimits(limits RequestLimits) error { return SetLimits(q.r, limits) }

// start serves h with the timeouts limits, until the end of the test, at which the counts
// have to add up. A line in the server's log fails the test.
func start(t testing.TB, secure bool, limits Timeouts, h http.HandlerFunc, prepare ...func(*http.Server)) *site {
	t.Helper()
	return startOn(t, httpsuite.Listen(t), secure, limits, h, prepare...)
}
