package idlehttp

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpconn"
	"github.com/idlewheel/idlewheel/idle"
)

// A stream is the ResponseWriter of a request of HTTP/2, with its body and its context. It has the exported
// methods that net/http's own has. It and its body report when they may have to wait for the client.
type stream struct {
	response
	limits  httpconn.Stream
	body    body
	context streamContext
	late    chan struct{} // closed when HandlerTimeout passes; nil if the request began without one
	bare    bool          // the response has no body, because the request is a HEAD

	flushed bool // the header has been sent, or is being sent
	room    int  // how many bytes net/http's buffer surely has room for
	held    int  // how many it holds that have not been reported
}

// bufferSize is the size of net/http's buffer for each response of HTTP/2. A write that fits into it doesn't wait.
const bufferSize = 4 << 10

// stepSize is how much of a large write is written at once. Each step that gets through is progress.
const stepSize = 16 << 10

// A streamContext is the context of a stream's request.
type streamContext struct {
	context.Context
	stream *stream
}

// streamKey is the key of a streamContext's value, which is the stream.
type streamKey struct{}

func (x *streamContext) Value(key any) any {
	if key == (streamKey{}) {
		return x.stream
	}
	return x.Context.Value(key)
}

// streamOf returns the stream of a request of HTTP/2, or nil if there is none.
func streamOf(r *http.Request) *stream {
	x, _ := r.Context().Value(streamKey{}).(*stream)
	return x
}

// serveHTTP2 serves a request of HTTP/2 on c with limits.
func serveHTTP2(c *httpconn.Conn, next http.Handler, w http.ResponseWriter, r *http.Request) {
	x := &stream{response: response{w, c, false}, bare: r.Method == http.MethodHead, room: bufferSize}
	if c.LimitsHandler() {
		x.late = make(chan struct{})
	}
	x.limits.Init(c, r.ContentLength != 0, x.cut)
	x.context = streamContext{r.Context(), x}
	x.body.ReadCloser, x.body.limits = r.Body, &x.limits
	limited := r.WithContext(&x.context)
	limited.Body = &x.body
	defer x.limits.Return()
	if x.late == nil {
		next.ServeHTTP(x, limited)
	} else {
		serveTimed(next, x, limited, x.late, x.reset)
	}
	x.finish()
}

// cut makes the request fail. Reads of the body fail. A limit of writing resets the stream, and so does
// HandlerTimeout, unless the handler hasn't answered.
func (x *stream) cut(err *idle.TimeoutError) {
	x.controller().SetReadDeadline(past())
	switch {
	case httpconn.IsOfReading(err):
	case err.Reason == idle.ReasonPhase && x.late != nil:
		close(x.late)
	default:
		x.reset()
	}
}

// reset resets the stream.
func (x *stream) reset() { x.controller().SetWriteDeadline(past()) }

// past returns a deadline that has passed whatever the clock says.
func past() time.Time { return time.Unix(1, 0) }

// finish ends the response, when the handler has returned. It answers a request that was late, unless the handler
// has. Then it sends what net/http still holds back. If that's the whole response, only net/http can send it, with a
// Content-Length, when the handler has returned. To learn of its end takes a goroutine, so only each eighth is
// watched.
func (x *stream) finish() {
	x.answer(x.limits.Timeout(), false)
	x.ask()
	switch {
	case x.bare:
	case x.flushed && x.room < bufferSize:
		x.Flush()
	case x.held > 0 && x.limits.IsEighth():
		x.limits.EndWhen(x.CloseNotify())
	}
}

// ask is called before the header is written. If the connection was asked to finish, it has net/http send a GOAWAY.
func (x *stream) ask() {
	if !x.asked {
		x.head(false)
	}
}

// WriteHeader writes the header.
func (x *stream) WriteHeader(status int) {
	if status >= http.StatusOK {
		x.ask()
	}
	x.ResponseWriter.WriteHeader(status)
}

func (x *stream) Write(b []byte) (int, error) {
	return x.write(len(b), func(from, to int) (int, error) { return x.ResponseWriter.Write(b[from:to]) })
}

func (x *stream) WriteString(s string) (int, error) {
	return x.write(len(s), func(from, to int) (int, error) { return io.WriteString(x.ResponseWriter, s[from:to]) })
}

// write writes size bytes by calls of part.
func (x *stream) write(size int, part func(from, to int) (int, error)) (written int, err error) {
	x.ask()
	if size <= x.room {
		n, err := part(0, size)
		x.room -= n
		x.held += n
		return n, err
	}
	x.respond()
	x.room = 0
	for err == nil && written < size {
		var n int
		x.limits.BeginWrite()
		n, err = part(written, min(size, written+stepSize))
		x.limits.EndWrite(x.held + n)
		x.held = 0
		written += n
	}
	return written, x.explain(err)
}

// respond is called before anything is sent.
func (x *stream) respond() {
	x.flushed = true
	x.limits.StopWaiting()
}

// explain returns the limit that has passed, if there is one, in place of err.
func (x *stream) explain(err error) error {
	if timeout := x.limits.Timeout(); err != nil && timeout != nil {
		return timeout
	}
	return err
}

// Flush sends what net/http holds back.
func (x *stream) Flush() { x.FlushError() }

// FlushError is Flush for http.ResponseController.
func (x *stream) FlushError() error {
	x.ask()
	x.respond()
	x.limits.BeginWrite()
	err := x.controller().Flush()
	x.limits.EndWrite(x.held)
	x.held = 0
	if err == nil {
		x.room = bufferSize
	}
	return x.explain(err)
}

// Push implements http.Pusher.
func (x *stream) Push(target string, o *http.PushOptions) error {
	if p, ok := x.ResponseWriter.(http.Pusher); ok {
		return p.Push(target, o)
	}
	return http.ErrNotSupported
}

func (x *stream) SetReadDeadline(t time.Time) error {
	x.limits.StopWaiting() // the handler limits the body itself
	return x.controller().SetReadDeadline(t)
}

// A body is the body of a request of HTTP/2.
type body struct {
	io.ReadCloser
	limits  *httpconn.Stream
	reading atomic.Bool
}

// Read reads from the body.
func (b *body) Read(p []byte) (n int, err error) {
	if !b.reading.CompareAndSwap(false, true) {
		return b.ReadCloser.Read(p) // another goroutine reads, and reports it
	}
	defer b.reading.Store(false)
	b.limits.BeginRead()
	n, err = b.ReadCloser.Read(p)
	if late := b.limits.EndRead(n, err != nil); late != nil {
		return 0, late
	}
	return n, err
}
