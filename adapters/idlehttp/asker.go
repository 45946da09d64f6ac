package idlehttp

import (
	"bufio"
	"io"
	"net"
	"net/http"

	"github.com/idlewheel/idlewheel/adapters/internal/httpconn"
)

// asking is the handler of a server that was prepared for a listener. It asks the clients
// of next to close their connections, if these are to finish. HTTP/2 has GOAWAY for that.
type asking struct {
	l    *Listener
	next http.Handler
}

func (h *asking) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, _ := r.Context().Value(connKey{}).(*httpconn.Conn)
	if r.ProtoMajor != 1 || c == nil || httpconn.ListenerOf(c) != h.l.inner {
		if c != nil {
			c.Announce()
		}
		h.next.ServeHTTP(w, r)
		return
	}
	a := &asker{ResponseWriter: w, conn: c}
	h.next.ServeHTTP(a, r)
	a.begin() // net/http sends the header of a response without a body when the handler has returned
}

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
type asker struct {
	http.ResponseWriter
	conn  *httpconn.Conn
	begun bool // the header is written, or the connection hijacked
}

// begin is called before the header is written.
func (a *asker) begin() {
	if a.begun {
		return
	}
	a.begun = true
	if a.conn.IsTold() {
		a.Header().Set("Connection", "close")
	}
}

// WriteHeader writes the header. With 413 the connection is closed, as it would be by an
// [http.MaxBytesReader], which cannot call the method that is not exported. Otherwise the
// server would read the rest of the body before it sends the response.
func (a *asker) WriteHeader(status int) {
	if status == http.StatusRequestEntityTooLarge {
		a.Header().Set("Connection", "close")
	}
	if status >= http.StatusOK { // not an interim response, or an upgrade
		a.begin()
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *asker) Write(b []byte) (int, error) {
	a.begin()
	return a.ResponseWriter.Write(b)
}

func (a *asker) WriteString(s string) (int, error) {
	a.begin()
	return io.WriteString(a.ResponseWriter, s)
}

func (a *asker) ReadFrom(r io.Reader) (int64, error) {
	a.begin()
	return io.Copy(a.ResponseWriter, r)
}

func (a *asker) Flush() { a.FlushError() }

func (a *asker) FlushError() error {
	a.begin()
	return http.NewResponseController(a.ResponseWriter).Flush()
}

func (a *asker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	a.begun = true
	return http.NewResponseController(a.ResponseWriter).Hijack()
}

func (a *asker) CloseNotify() <-chan bool {
	if n, ok := a.ResponseWriter.(interface{ CloseNotify() <-chan bool }); ok {
		return n.CloseNotify()
	}
	return nil
}

// Unwrap is for http.ResponseController.
func (a *asker) Unwrap() http.ResponseWriter { return a.ResponseWriter }
