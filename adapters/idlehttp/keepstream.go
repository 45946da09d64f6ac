package idlehttp

import (
	"fmt"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpconn"
)

// KeepStream returns a handler that serves like h, and writes and flushes comment whenever a
// response of h has been silent for interval. It's for responses that may be silent for long,
// such as server-sent events:
//
//	http.Handle("/events", idlehttp.KeepStream(events, 15*time.Second, ": \n\n"))
//
// Comments keep proxies and middleboxes from closing the connection, and they find clients that
// have vanished. If a client hasn't acknowledged a comment when the next one is due, WriteTimeout
// and WriteRate begin to count, and no more comments are written until it has. This needs a
// kernel that reports acknowledgements (Linux). Elsewhere, TCP's own timeouts find clients that
// have vanished. In both cases the request's context is cancelled, as when the client
// disconnects.
//
// Comments begin with the first Flush of h, so h should flush as soon as it has written the
// header. A comment is written only if nothing was written since the last Flush. A comment that
// ends with line breaks is written only where the response ends with at least as many. So it doesn't
// fall into the middle of an event, even if h is a proxy that flushes a part of one. A comment that
// begins with a colon is for event streams, so a response whose Content-Type isn't
// text/event-stream gets none. A response with a Content-Length or a Content-Encoding gets none
// either. For a stream of JSON values, comment may be a line break or a space.
//
// Comments end when h returns or the request's context is done. Reads of the request and limits
// of its own ([SetLimits]) work as in h. The ResponseWriter that h gets can flush. For anything
// else it has an Unwrap method, which [http.ResponseController] uses. KeepStream works on any
// server, but it finds vanished clients only on a listener of this package.
//
// KeepStream panics if interval is less than 1 ms, or comment is empty.
func KeepStream(h http.Handler, interval time.Duration, comment string) http.Handler {
	switch {
	case h == nil:
		panic("idlehttp: KeepStream: the handler is nil")
	case interval < time.Millisecond:
		panic(fmt.Sprintf("idlehttp: KeepStream: interval is %v; use at least 1ms, such as 15*time.Second", interval))
	case comment == "":
		panic("idlehttp: KeepStream: comment is empty; use \": \\n\\n\" for server-sent events")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := &keptStream{ResponseWriter: w, r: r, interval: interval, comment: []byte(comment)}
		s.conn = connOf(r)
		defer s.end()
		h.ServeHTTP(s, r)
	})
}

// A keptStream is the ResponseWriter of a handler under KeepStream. Its mutex is held during
// each write of the handler and of the timer, so neither falls into the other.
type keptStream struct {
	http.ResponseWriter
	r        *http.Request
	conn     *httpconn.Conn // nil if the server has no listener of ours
	interval time.Duration
	comment  []byte

	mu       sync.Mutex
	timer    *time.Timer // calls keep; nil until the first Flush of a response that may have comments
	begun    bool        // there has been a Flush
	clean    bool        // nothing has been written since the last Flush
	written  bool        // the body is not empty
	newlines int         // how many line breaks end it
	ended    bool
}

// Write writes a part of the body.
func (s *keptStream) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clean = false
	return s.write(b)
}

// write is Write with s.mu held.
func (s *keptStream) write(b []byte) (int, error) {
	n, err := s.ResponseWriter.Write(b)
	if n > 0 {
		newlines, other := trailingNewlines(b[:n])
		if !other {
			newlines += s.newlines
		}
		s.newlines, s.written = newlines, true
	}
	return n, err
}

// trailingNewlines returns how many line breaks b ends with, and whether there is anything
// else in b.
func trailingNewlines(b []byte) (n int, other bool) {
	for i := len(b) - 1; i >= 0; i-- {
		switch b[i] {
		case '\n':
			n++
		case '\r':
		default:
			return n, true
		}
	}
	return n, false
}

// Flush sends what has been written.
func (s *keptStream) Flush() { s.FlushError() }

// FlushError is Flush for http.ResponseController.
func (s *keptStream) FlushError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := http.NewResponseController(s.ResponseWriter).Flush(); err != nil {
		return err
	}
	s.clean = true
	switch {
	case !s.begun:
		s.begun = true
		if s.maySpeak() {
			s.timer = time.AfterFunc(s.interval, s.keep)
		}
	case s.timer != nil && !s.ended:
		s.timer.Reset(s.interval)
	}
	return nil
}

// maySpeak reports whether the header of the response allows comments in its body.
func (s *keptStream) maySpeak() bool {
	h := s.Header()
	if h.Get("Content-Length") != "" || h.Get("Content-Encoding") != "" {
		return false
	}
	kind, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	return s.comment[0] != ':' || strings.EqualFold(kind, "text/event-stream")
}

// keep writes a comment if the response has been silent for the interval. If it may not be
// written now, the next Flush starts the timer again.
func (s *keptStream) keep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	need, _ := trailingNewlines(s.comment)
	if s.ended || s.r.Context().Err() != nil || !s.clean || s.written && s.newlines < need {
		return
	}
	if s.conn == nil || !s.conn.AwaitAcked() {
		if _, err := s.write(s.comment); err != nil {
			return
		}
		if err := http.NewResponseController(s.ResponseWriter).Flush(); err != nil {
			return
		}
	}
	s.timer.Reset(s.interval)
}

// end stops the comments. Once it has returned, nothing is written.
func (s *keptStream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	if s.timer != nil {
		s.timer.Stop()
	}
}

// Unwrap is for http.ResponseController.
func (s *keptStream) Unwrap() http.ResponseWriter { return s.ResponseWriter }
