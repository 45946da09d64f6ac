package idlehttp

import (
	"context"
	"net/http"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpconn"
	"github.com/idlewheel/idlewheel/idle"
)

// A connContext is the context of a connection of ours, and of its requests.
type connContext struct {
	context.Context
	conn     *httpconn.Conn
	exchange exchange // the request of HTTP/1 that is being handled
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

// A limiting is the handler of a server that was prepared for a listener. It applies the limits of requests to next, and
// asks clients to close their connections, if these have to finish.
type limiting struct {
	l    *Listener
	next http.Handler
}

func (h *limiting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x, ours := r.Context().Value(connKey{}).(*connContext)
	switch {
	case !ours || httpconn.Find(h.l.inner, x.conn) == nil:
	case r.ProtoMajor == 2 && x.conn.SpeaksHTTP2() && streamOf(r) == nil:
		mustLive(x.conn)
		serveHTTP2(x.conn, (*cleaning)(h), w, r)
		return
	case (r.ProtoMajor == 1 || isPreface(r)) && x.exchange.used.CompareAndSwap(false, true):
		defer x.exchange.used.Store(false)
		mustLive(x.conn)
		x.exchange.serve(x.conn, (*cleaning)(h), w, r)
		return
	}
	h.next.ServeHTTP(w, r) // with the writer of a handler that has called the server's Handler
}

// mustLive aborts a request whose connection has ended just before its server told of it. So it isn't executed, nor answered.
func mustLive(c *httpconn.Conn) {
	if c.TimedOut() {
		panic(http.ErrAbortHandler)
	}
}

// A cleaning is the next handler of a limiting, for a request that isn't net/http's own. It removes the files of its
// form, which net/http doesn't know. A handler that is late may still use them.
type cleaning limiting

func (h *cleaning) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer func() {
		if r.MultipartForm != nil {
			r.MultipartForm.RemoveAll()
		}
	}()
	h.next.ServeHTTP(w, r)
}

// A response is what an exchange and a stream have in common: net/http's own ResponseWriter, with the methods that
// don't concern us, and whether the header is written.
type response struct {
	http.ResponseWriter
	conn  *httpconn.Conn
	asked bool // the header is written, or the connection hijacked
}

// head is called before the header is written. If the connection was asked to finish, or ends anyway, the header says
// so. In HTTP/2 that has net/http send a GOAWAY.
func (x *response) head(ends bool) {
	x.asked = true
	if ends || x.conn.IsTold() {
		x.Header().Set("Connection", "close")
	}
}

// answer answers a request that was ended by err, unless its handler has.
func (x *response) answer(err *idle.TimeoutError, ends bool) {
	if status := httpconn.StatusOf(err); status != 0 && !x.asked {
		clear(x.Header()) // it belongs to the answer that the handler didn't give
		x.head(ends)
		x.ResponseWriter.WriteHeader(status)
	}
}

func (x *response) controller() *http.ResponseController {
	return http.NewResponseController(x.ResponseWriter)
}

func (x *response) SetWriteDeadline(t time.Time) error { return x.controller().SetWriteDeadline(t) }

func (x *response) EnableFullDuplex() error { return x.controller().EnableFullDuplex() }

func (x *response) CloseNotify() <-chan bool {
	if n, ok := x.ResponseWriter.(interface{ CloseNotify() <-chan bool }); ok {
		return n.CloseNotify()
	}
	return nil
}

// isPreface reports whether r is the beginning of HTTP/2's preface. net/http takes it for a request of HTTP/1
// if it doesn't speak HTTP/2 without TLS.
func isPreface(r *http.Request) bool { return r.Method == "PRI" }

// isServed reports whether a listener is served for which s was prepared.
func isServed(s *http.Server) bool {
	for h, ok := s.Handler.(*limiting); ok; h, ok = h.next.(*limiting) {
		if httpconn.IsServed(h.l.inner) {
			return true
		}
	}
	return false
}
