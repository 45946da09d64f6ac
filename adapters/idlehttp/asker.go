package idlehttp

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpconn"
)

// A connContext is the context of a connection of ours, and of its requests.
type connContext struct {
	context.Context
	conn  *httpconn.Conn
	asker asker // of the request of HTTP/1 that is being handled
}

// connKey is the key of a connContext's value, which is itself.
type connKey struct{}

func (x *connContext) Value(key any) any {
	if key == (connKey{}) {
		return x
	}
	return x.Context.Value(key)
}

// connOf returns the connection on which r has arrived, or nil if it isn't one of ours.
func connOf(r *http.Request) *httpconn.Conn {
	if x, ok := r.Context().Value(connKey{}).(*connContext); ok {
		return x.conn
	}
	return nil
}

// asking is the handler of a server that was prepared for a listener. It asks the clients of next
// to close their connections, if these have to finish. In HTTP/2 it also has the limits of requests.
type asking struct {
	l    *Listener
	next http.Handler
}

func (h *asking) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x, ours := r.Context().Value(connKey{}).(*connContext)
	switch {
	case !ours || httpconn.ListenerOf(x.conn) != h.l.inner:
	case isPreface(r) && x.conn.Timeout() != nil: // the rest of it did not come in time
		panic(http.ErrAbortHandler)
	case r.ProtoMajor == 2 && x.conn.SpeaksHTTP2() && streamOf(r) == nil:
		serveHTTP2(x.conn, h.next, w, r)
		return
	case (r.ProtoMajor == 1 || isPreface(r)) && x.asker.begin(w, r, x.conn):
		if r.Header["Http2-Settings"] != nil { // as a server may, it stays with HTTP/1
			r.Header.Del("Upgrade")
		}
		w = &x.asker
		defer x.asker.end()
	}
	h.next.ServeHTTP(w, r)
}

// isPreface reports whether r is the beginning of HTTP/2's preface. net/http takes it for a request of HTTP/1
// if it doesn't speak HTTP/2 without TLS.
func isPreface(r *http.Request) bool { return r.Method == "PRI" }

// isServed reports whether a listener is served for which s was prepared.
func isServed(s *http.Server) bool {
	for h, ok := s.Handler.(*asking); ok; h, ok = h.next.(*asking) {
		if httpconn.IsServed(h.l.inner) {
			return true
		}
	}
	return false
}

// An asker is the ResponseWriter of a request of HTTP/1. When the header of the response
// is written, the connection may have been asked to finish. Then the header says so. It
// has the exported methods that net/http's own ResponseWriter has.
//
// HTTP/1 handles one request of a connection at a time, so each connection has one asker and
// reuses it. A handler must not use it after it has returned. The same is true of net/http's
// own ResponseWriter: its buffer may already belong to another request.
type asker struct {
	http.ResponseWriter
	conn    *httpconn.Conn
	asked   bool // the header is written, or the connection hijacked
	interim bool // what is written is an interim response
	preface bool // the request is HTTP/2's preface
	used    atomic.Bool
}

// begin begins a request, with the writer of its response. It returns false if there is one
// already: a handler may call the server's Handler, with a writer of its own.
func (a *asker) begin(w http.ResponseWriter, r *http.Request, c *httpconn.Conn) bool {
	if !a.used.CompareAndSwap(false, true) {
		return false
	}
	a.ResponseWriter, a.conn, a.asked, a.interim, a.preface = w, c, false, false, isPreface(r)
	if c.IsSecure() && len(r.Header["Expect"]) > 0 { // the server writes 100 Continue when the handler reads the body
		a.sendsInterim()
	}
	return true
}

// sendsInterim is called before an interim response is written. Over TLS the connection can't tell
// it from the final one.
func (a *asker) sendsInterim() {
	if !a.asked && !a.interim && a.conn.IsSecure() {
		a.interim = true
		a.conn.Interim(true)
	}
}

// endInterim is called before anything else is written.
func (a *asker) endInterim() {
	if a.interim {
		a.interim = false
		a.conn.Interim(false)
	}
}

// end ends the request.
func (a *asker) end() {
	a.ask() // net/http sends the header of a response without a body when the handler has returned
	a.ResponseWriter = noResponse{}
	a.used.Store(false)
}

// ask is called before the header is written.
func (a *asker) ask() {
	if a.asked {
		return
	}
	a.asked = true
	a.endInterim()
	a.conn.Respond()
	if a.conn.IsTold() {
		a.Header().Set("Connection", "close")
	}
}

// WriteHeader writes the header. With 413 it closes the connection. net/http's
// [http.MaxBytesReader] would do that through an unexported method of the ResponseWriter, which
// this one doesn't have. Otherwise the server would read the rest of the body before it sends the
// response.
func (a *asker) WriteHeader(status int) {
	if status == http.StatusRequestEntityTooLarge {
		a.Header().Set("Connection", "close")
	}
	switch {
	case status >= http.StatusOK:
		a.ask()
	case status == http.StatusSwitchingProtocols:
		a.endInterim()
	default:
		a.sendsInterim()
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *asker) Write(b []byte) (int, error) {
	a.ask()
	return a.ResponseWriter.Write(b)
}

func (a *asker) WriteString(s string) (int, error) {
	a.ask()
	return io.WriteString(a.ResponseWriter, s)
}

// ReadFrom calls net/http's own. io.Copy would prefer r.WriteTo, which may write more than the Content-Length at once,
// and then nothing is written.
func (a *asker) ReadFrom(r io.Reader) (int64, error) {
	a.ask()
	if to, ok := a.ResponseWriter.(io.ReaderFrom); ok {
		return to.ReadFrom(r)
	}
	return io.Copy(a.ResponseWriter, r)
}

func (a *asker) Flush() { a.FlushError() }

func (a *asker) FlushError() error {
	a.ask()
	return http.NewResponseController(a.ResponseWriter).Flush()
}

func (a *asker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if a.preface {
		return nil, nil, errH2C
	}
	a.asked = true
	return http.NewResponseController(a.ResponseWriter).Hijack()
}

func (a *asker) CloseNotify() <-chan bool {
	if n, ok := a.ResponseWriter.(interface{ CloseNotify() <-chan bool }); ok {
		return n.CloseNotify()
	}
	return nil
}

func (a *asker) SetReadDeadline(t time.Time) error {
	return http.NewResponseController(a.ResponseWriter).SetReadDeadline(t)
}

func (a *asker) SetWriteDeadline(t time.Time) error {
	return http.NewResponseController(a.ResponseWriter).SetWriteDeadline(t)
}

func (a *asker) EnableFullDuplex() error {
	return http.NewResponseController(a.ResponseWriter).EnableFullDuplex()
}

// Unwrap is for http.ResponseController. Its caller may also write the response to what it returns.
func (a *asker) Unwrap() http.ResponseWriter {
	a.endInterim()
	return a.ResponseWriter
}

// errH2C is why golang.org/x/net/http2/h2c can't hijack connections to speak HTTP/2 on them.
var errH2C = errors.New("idlehttp: HTTP/2 on a hijacked connection would have no limits; " +
	"use Server.Protocols (SetUnencryptedHTTP2) in place of golang.org/x/net/http2/h2c")

// noResponse is the ResponseWriter of an asker between two requests.
type noResponse struct{}

var errNoRequest = errors.New("idlehttp: the handler of the request has returned")

func (noResponse) Header() http.Header       { return http.Header{} }
func (noResponse) Write([]byte) (int, error) { return 0, errNoRequest }
func (noResponse) WriteHeader(int)           {}
