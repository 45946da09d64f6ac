package idlehttp

import (
	"context"
	"net/http"

	"github.com/idlewheel/idlewheel/adapters/internal/httpconn"
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
	case !ours || httpconn.ListenerOf(x.conn) != h.l.inner:
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

// A cleaning is the next handler of a limiting, for a request that isn't net/http's own. It removes the files of its form, which net/http
// doesn't know. A handler that is late may still use them.
type cleaning limiting

func (h *cleaning) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer func() {
		if r.MultipartForm != nil {
			r.MultipartForm.RemoveAll()
		}
	}()
	h.next.ServeHTTP(w, r)
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
