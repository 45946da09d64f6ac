package idlehttp

import (
	"bufio"
	"io"
	"maps"
	"net"
	"net/http"
	"runtime"
	"sync"
	"time"
)

// A timed is the ResponseWriter that a handler gets if there is a HandlerTimeout. As with [http.TimeoutHandler], the handler
// runs on a goroutine of its own. If the time passes before it has answered, the server's goroutine answers 503. Unlike
// with http.TimeoutHandler, the response isn't held back, so handlers can stream.
type timed struct {
	writer
	header http.Header // what the handler sets, because it may do that while the server answers

	passed <-chan struct{} // closed when the time has passed
	mu     sync.Mutex
	begun  bool // the handler answers
}

// A writer is an exchange or a stream.
type writer interface {
	http.ResponseWriter
	io.StringWriter
	http.Flusher
	http.CloseNotifier //lint:ignore SA1019 handlers may still use it
	FlushError() error
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
	EnableFullDuplex() error
}

// serveTimed serves like next. If passed is closed before the handler has begun to answer, it returns, and the
// handler goes on without the response. If the handler has begun, it calls begun.
func serveTimed(next http.Handler, w writer, r *http.Request, passed <-chan struct{}, begun func()) {
	t := &timed{writer: w, header: w.Header().Clone(), passed: passed}
	returned, panicked, done := false, any(nil), make(chan struct{})
	go func() {
		defer close(done)
		defer func() { panicked = recover() }()
		next.ServeHTTP(t.responseWriter(), r)
		returned = true
	}()
	select {
	case <-done:
	case <-passed:
		if t.isLate() {
			return
		}
		begun()
		<-done
	}
	switch {
	case panicked != nil:
		panic(panicked)
	case !returned:
		runtime.Goexit() // as the handler has
	case !t.isLate():
		t.copyHeader()
	}
}

// responseWriter returns t with the exported methods that net/http's own ResponseWriter has.
func (t *timed) responseWriter() http.ResponseWriter {
	if _, ok := t.writer.(*stream); ok {
		return &timedHTTP2{t}
	}
	return &timedHTTP1{t}
}

// copyHeader has the real header be the handler's.
func (t *timed) copyHeader() {
	to := t.writer.Header()
	clear(to)
	maps.Copy(to, t.header)
}

// isLate reports whether the time has passed before the handler has begun to answer. From then on it can't.
func (t *timed) isLate() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.late()
}

// late is isLate for callers that hold mu.
func (t *timed) late() bool {
	select {
	case <-t.passed:
		return !t.begun
	default:
		return false
	}
}

// begin is called before the handler answers. It fails if the server does.
func (t *timed) begin() error {
	if t.begun {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.late() {
		return http.ErrHandlerTimeout
	}
	t.begun = true
	t.copyHeader()
	return nil
}

// Header returns the header that the handler sets.
func (t *timed) Header() http.Header { return t.header }

// WriteHeader writes the header. An interim response doesn't begin the answer.
func (t *timed) WriteHeader(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		if t.begin() == nil {
			t.writer.WriteHeader(status)
		}
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.late() {
		t.copyHeader()
		t.writer.WriteHeader(status)
	}
}

func (t *timed) Write(b []byte) (int, error) {
	if err := t.begin(); err != nil {
		return 0, err
	}
	return t.writer.Write(b)
}

func (t *timed) WriteString(s string) (int, error) {
	if err := t.begin(); err != nil {
		return 0, err
	}
	return t.writer.WriteString(s)
}

func (t *timed) Flush() { t.FlushError() }

func (t *timed) FlushError() error {
	if err := t.begin(); err != nil {
		return err
	}
	return t.writer.FlushError()
}

// control calls f, unless the handler is late. Then the server has gone on.
func (t *timed) control(f func() error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.late() {
		return http.ErrHandlerTimeout
	}
	return f()
}

func (t *timed) SetReadDeadline(at time.Time) error {
	return t.control(func() error { return t.writer.SetReadDeadline(at) })
}

func (t *timed) SetWriteDeadline(at time.Time) error {
	return t.control(func() error { return t.writer.SetWriteDeadline(at) })
}

func (t *timed) EnableFullDuplex() error { return t.control(t.writer.EnableFullDuplex) }

func (t *timed) CloseNotify() (gone <-chan bool) {
	if t.control(func() error { gone = t.writer.CloseNotify(); return nil }) != nil {
		late := make(chan bool, 1)
		late <- true
		return late
	}
	return gone
}

// A timedHTTP1 is a timed for HTTP/1.
type timedHTTP1 struct{ *timed }

func (t *timedHTTP1) ReadFrom(r io.Reader) (int64, error) {
	if err := t.begin(); err != nil {
		return 0, err
	}
	return t.writer.(io.ReaderFrom).ReadFrom(r)
}

func (t *timedHTTP1) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if err := t.begin(); err != nil {
		return nil, nil, err
	}
	return t.writer.(http.Hijacker).Hijack()
}

// A timedHTTP2 is a timed for HTTP/2.
type timedHTTP2 struct{ *timed }

func (t *timedHTTP2) Push(target string, o *http.PushOptions) error {
	return t.control(func() error { return t.writer.(http.Pusher).Push(target, o) })
}
