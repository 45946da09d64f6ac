package idlehttp

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpconn"
)

// An exchange is the ResponseWriter of a request of HTTP/1. It has the exported methods that net/http's own
// has. When it writes the header, and the connection was asked to finish, the header says so.
//
// It also knows when the server reads the body. Only then the limits of the body count. Writes have their limits
// in the connection.
//
// HTTP/1 handles one request of a connection at a time, so each connection has one exchange and
// reuses it. A handler must not use it after it has returned. The same is true of net/http's
// own ResponseWriter: its buffer may already belong to another request.
type exchange struct {
	response
	body    *connBody // nil if the request has none
	unsent  int       // if net/http may read the rest of the body first: how many more bytes of the response make it send; else 0
	duplex  bool      // EnableFullDuplex was called
	preface bool      // the request is HTTP/2's preface
	used    atomic.Bool
}

// responseBuffer is the size of net/http's buffer for each response. One byte more, and it sends something.
const responseBuffer = 2048

// A bodied is a request with a body. net/http must keep its own, because it looks at the type of that one's body.
type bodied struct {
	http.Request
	body connBody
}

// serve serves a request that has arrived on c.
func (x *exchange) serve(c *httpconn.Conn, next http.Handler, w http.ResponseWriter, r *http.Request) {
	x.response = response{w, c, false}
	x.body, x.unsent, x.duplex, x.preface = nil, 0, false, isPreface(r)
	defer func() { x.ResponseWriter = noResponse{} }()
	if r.Header["Http2-Settings"] != nil { // as a server may, it stays with HTTP/1
		r.Header.Del("Upgrade")
	}
	if r.Body != nil && r.Body != http.NoBody {
		b := &bodied{Request: *r}
		b.body.ReadCloser, b.body.conn, b.body.own, b.body.given = r.Body, c, r, &b.Request
		x.body, x.unsent = &b.body, responseBuffer+1
		r = &b.Request
		r.Body = x.body
	}
	if c.LimitsHandler() {
		if x.body == nil {
			r = r.WithContext(r.Context()) // a handler that is late may change its request while net/http uses its own
		}
		serveTimed(next, x, r, c.Late(), func() {})
	} else {
		next.ServeHTTP(x, r)
	}
	x.finish()
}

// finish ends the response, when the handler has returned. It answers a request that was late, unless the
// handler has. If net/http reads the rest of the body, that has the limits of reading.
func (x *exchange) finish() {
	x.answer(x.conn.Timeout(), true)
	x.ask() // net/http sends the header of a response without a body when the handler has returned
	if x.body != nil {
		x.body.leave()
	}
}

// ask is called before the header is written. It fails if the handler was late. A handler whose body was late may answer.
func (x *exchange) ask() error {
	if x.asked {
		return nil
	}
	if timeout := x.conn.Timeout(); timeout != nil && !httpconn.IsOfReading(timeout) {
		return timeout
	}
	x.head(false)
	x.converse()
	return nil
}

// converse lifts the limits of reading until the handler returns if the response has begun in full duplex. Then
// client and handler may be in a conversation.
func (x *exchange) converse() {
	if x.duplex && x.asked && x.body != nil {
		x.body.free(false)
	}
}

// WriteHeader writes the header. With 413 it closes the connection. net/http's
// [http.MaxBytesReader] would do that through an unexported method of the ResponseWriter, which
// this one doesn't have. Otherwise the server would read the rest of the body before it sends the
// response.
func (x *exchange) WriteHeader(status int) {
	if status == http.StatusRequestEntityTooLarge {
		x.Header().Set("Connection", "close")
	}
	if status >= http.StatusOK && x.ask() != nil {
		return
	}
	x.ResponseWriter.WriteHeader(status)
}

func (x *exchange) Write(b []byte) (n int, err error) {
	if err := x.ask(); err != nil {
		return 0, err
	}
	if x.sends(len(b)) {
		end := x.body.begin()
		first := x.unsent
		x.unsent = 0
		n, err = x.ResponseWriter.Write(b[:first])
		end(false)
		if b = b[first:]; err != nil || len(b) == 0 {
			return n, err
		}
	}
	m, err := x.ResponseWriter.Write(b)
	return n + m, err
}

// sends reports whether a write of n bytes makes net/http send the header, and read the rest of the body before. What makes it
// do that is written on its own, so that the limits of reading don't count while the client reads the response.
func (x *exchange) sends(n int) bool {
	switch {
	case x.unsent == 0:
		return false
	case !x.body.isPending():
		x.unsent = 0
		return false
	case n >= x.unsent:
		return true
	}
	x.unsent -= n
	return false
}

func (x *exchange) WriteString(s string) (int, error) {
	if x.unsent > 0 {
		return x.Write([]byte(s))
	}
	if err := x.ask(); err != nil {
		return 0, err
	}
	return io.WriteString(x.ResponseWriter, s)
}

// ReadFrom calls net/http's own. io.Copy would prefer r.WriteTo, which may write more than the Content-Length at once,
// and then nothing is written.
func (x *exchange) ReadFrom(r io.Reader) (int64, error) {
	if err := x.ask(); err != nil {
		return 0, err
	}
	to, ok := x.ResponseWriter.(io.ReaderFrom)
	if !ok || x.unsent > 0 && x.body.isPending() { // perhaps r is the body
		return io.Copy(struct{ io.Writer }{x}, struct{ io.Reader }{r})
	}
	return to.ReadFrom(r)
}

func (x *exchange) Flush() { x.FlushError() }

func (x *exchange) FlushError() error {
	if err := x.ask(); err != nil {
		return err
	}
	if x.sends(x.unsent) {
		x.unsent = 0
		defer x.body.begin()(false)
	}
	return x.controller().Flush()
}

func (x *exchange) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if x.preface {
		return nil, nil, errH2C
	}
	x.asked = true
	return x.controller().Hijack()
}

// SetReadDeadline sets a deadline with which the handler limits the body itself.
func (x *exchange) SetReadDeadline(t time.Time) error {
	if x.body != nil {
		x.body.free(true)
	}
	return x.controller().SetReadDeadline(t)
}

func (x *exchange) EnableFullDuplex() error {
	x.duplex, x.unsent = true, 0
	x.converse()
	return x.response.EnableFullDuplex()
}

// errH2C is why golang.org/x/net/http2/h2c can't hijack connections to speak HTTP/2 on them.
var errH2C = errors.New("idlehttp: HTTP/2 on a hijacked connection would have no limits; " +
	"use Server.Protocols (SetUnencryptedHTTP2) in place of golang.org/x/net/http2/h2c")

// noResponse is the ResponseWriter of an exchange between two requests.
type noResponse struct{}

var errNoRequest = errors.New("idlehttp: the handler of the request has returned")

func (noResponse) Header() http.Header       { return http.Header{} }
func (noResponse) Write([]byte) (int, error) { return 0, errNoRequest }
func (noResponse) WriteHeader(int)           {}

// A connBody is the body of a request of HTTP/1. It tells the connection when the body is read.
type connBody struct {
	io.ReadCloser
	conn       *httpconn.Conn
	own, given *http.Request // net/http's and the handler's

	mu      sync.Mutex
	readers int  // how many goroutines read; from the handler's return on net/http counts as one
	freed   bool // has no limits until the handler returns
	ended   bool // has none any more: nothing is left, a read has failed, or the handler limits it itself
}

// begin reports that the body is read from now on, until the function that it returns is called, with whether nothing is left, or
// the read has failed.
func (b *connBody) begin() (end func(over bool)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	counts := !b.freed && !b.ended
	if counts {
		if b.readers++; b.readers == 1 {
			b.conn.ReadBody(true)
		}
	}
	return func(over bool) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.ended = b.ended || over
		if counts {
			if b.readers--; b.readers == 0 {
				b.conn.ReadBody(false)
			}
		}
	}
}

// isPending reports whether something of the body may be read under limits.
func (b *connBody) isPending() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.ended
}

// free lifts the limits of reading until the handler returns, or for the rest of the request.
func (b *connBody) free(rest bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.freed, b.ended = true, b.ended || rest
	b.conn.ReadBody(false)
}

// leave is called when the handler has returned, and net/http reads what is left. A goroutine that the handler has
// left behind may still read. It reports nothing any more, because that could be taken for the next request's.
func (b *connBody) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.readers++
	if !b.ended {
		b.conn.ReadBody(true)
	}
}

// Read reads from the body.
func (b *connBody) Read(p []byte) (int, error) {
	end := b.begin()
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.given.Trailer = b.own.Trailer // net/http sets its own, and makes the map if none was announced
	}
	end(err != nil)
	return n, err
}

// Close closes the body. net/http may read the rest before.
func (b *connBody) Close() error {
	end := b.begin()
	defer end(true)
	return b.ReadCloser.Close()
}
