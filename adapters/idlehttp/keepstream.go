package idlehttp

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpconn"
)

// Comments are what [KeepStream] writes into a response that is silent.
type Comments struct {
	// Interval is how long a response may be silent before a comment is written. It must be at least 1 ms.
	Interval time.Duration

	// Text is a comment, such as ": \n\n" for server-sent events, or a line break or a space for JSON values. It must
	// not be empty.
	Text string

	// BeginAs, if not empty, is a Content-Type, such as "text/event-stream". If the handler has written nothing
	// Interval after it was called, the response begins with status 200, this Content-Type, and a comment. This is for
	// handlers that may think for long before their first byte. If it's empty, comments begin with the handler's first
	// Flush.
	//
	// The handler may go on reading the request. In HTTP/1 that's full duplex
	// ([http.ResponseController.EnableFullDuplex]), so the client must read the response while it sends. Once the
	// response has begun, BodyTimeout and BodyRate don't apply any more. BeginAs applies to every request of the
	// handler, so choose the handler before.
	//
	// What the handler writes to its header after that isn't sent, except for trailers. If it sets another status than
	// 200, the client must not take the response for a success. So the handler's writes fail, and when it has returned,
	// the response is aborted. A handler that fails late should write its error into the stream.
	BeginAs string
}

// validate returns an error if c is invalid.
func (c *Comments) validate() error {
	switch {
	case c.Interval < time.Millisecond:
		return fmt.Errorf("idlehttp: KeepStream: Interval is %v; use at least 1ms, such as 15*time.Second", c.Interval)
	case c.Text == "":
		return errors.New(`idlehttp: KeepStream: Text is empty; use ": \n\n" for server-sent events`)
	case c.BeginAs == "":
		return nil
	}
	if _, _, err := mime.ParseMediaType(c.BeginAs); err != nil {
		return fmt.Errorf("idlehttp: KeepStream: BeginAs is %q: %w; use a Content-Type, such as text/event-stream", c.BeginAs, err)
	}
	if !c.suit(c.BeginAs) {
		return fmt.Errorf("idlehttp: KeepStream: BeginAs is %q, but a Text that begins with a colon is for text/event-stream", c.BeginAs)
	}
	return nil
}

// suit reports whether c may be written into a response of the given type.
func (c *Comments) suit(contentType string) bool {
	kind, _, _ := mime.ParseMediaType(contentType)
	return c.Text[0] != ':' || strings.EqualFold(kind, "text/event-stream")
}

// KeepStream returns a handler that serves like h, and writes and flushes a comment whenever a
// response of h has been silent for an interval. It's for responses that may be silent for long,
// such as server-sent events:
//
//	http.Handle("/events", idlehttp.KeepStream(events, idlehttp.Comments{Interval: 15 * time.Second, Text: ": \n\n"}))
//
// Comments keep proxies and middleboxes from closing the connection, and they find clients that
// have vanished. If a client hasn't acknowledged a comment when the next one is due, WriteTimeout
// and WriteRate begin to count, and no more comments are written until it has. This needs a
// kernel that reports acknowledgements (Linux). Elsewhere, TCP's own timeouts find clients that
// have vanished. In both cases the request's context is cancelled, as when the client
// disconnects.
//
// Comments begin with the first Flush of h, so h should flush as soon as it has written the
// header. If that may take long, set BeginAs of [Comments]. A comment is written only if nothing was
// written since the last Flush. A comment that ends with line breaks is written only where the
// response ends with at least as many. So it doesn't fall into the middle of an event, even if h is a
// proxy that flushes a part of one. A comment that begins with a colon is for event streams, so a
// response whose Content-Type isn't text/event-stream gets none. A response with a Content-Length or
// a Content-Encoding gets none either.
//
// Comments end when h returns or the request's context is done. Reads of the request and [SetLimits] work as without
// KeepStream, except that BeginAs ends BodyTimeout and BodyRate. The ResponseWriter that h gets can flush. For
// anything else it has an Unwrap method, which [http.ResponseController] uses. With BeginAs, h must not hijack the
// connection. KeepStream works on any server, but it finds vanished clients only on a listener of this package.
//
// KeepStream panics if c is invalid.
func KeepStream(h http.Handler, c Comments) http.Handler {
	if h == nil {
		panic("idlehttp: KeepStream: the handler is nil")
	}
	if err := c.validate(); err != nil {
		panic(err.Error())
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := &keptStream{ResponseWriter: w, r: r, comments: c, conn: connOf(r)}
		if c.BeginAs != "" {
			s.header = w.Header().Clone()
			s.mu.Lock()
			s.timer = time.AfterFunc(c.Interval, s.keep)
			s.mu.Unlock()
		}
		defer s.end()
		h.ServeHTTP(s, r)
		if s.end(); s.lost != 0 {
			panic(http.ErrAbortHandler)
		}
	})
}

// A keptStream is the ResponseWriter of a handler under KeepStream. Its mutex is held during
// each write of the handler and of the timer, so neither falls into the other.
type keptStream struct {
	http.ResponseWriter
	r        *http.Request
	conn     *httpconn.Conn // nil if the server has no listener of ours
	comments Comments

	// header is what h gets, if the timer may send the real one meanwhile; nil if not.
	header http.Header

	mu       sync.Mutex
	timer    *time.Timer // calls keep; nil if the response may have no comments, or not yet
	headed   bool        // the header is h's, and written
	early    bool        // the header isn't h's, because the timer has begun the response
	lost     int         // the status that h could not set any more
	begun    bool        // there has been a Flush
	clean    bool        // nothing has been written since the last Flush
	written  bool        // the body is not empty
	newlines int         // how many line breaks end it
	ended    bool
}

// Header returns the header that h sets.
func (s *keptStream) Header() http.Header {
	if s.header != nil {
		return s.header
	}
	return s.ResponseWriter.Header()
}

// copyHeader has the real header be h's.
func (s *keptStream) copyHeader() {
	if s.header != nil {
		to := s.ResponseWriter.Header()
		clear(to)
		maps.Copy(to, s.header)
	}
}

// WriteHeader writes the header, unless the response has begun without h.
func (s *keptStream) WriteHeader(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.early:
		s.copyHeader()
		s.headed = s.headed || status >= http.StatusOK || status == http.StatusSwitchingProtocols
		s.ResponseWriter.WriteHeader(status)
	case status > http.StatusOK && s.lost == 0:
		s.lost = status
	}
}

// writeHeader is called with s.mu held before h writes or flushes.
func (s *keptStream) writeHeader() error {
	if s.lost != 0 {
		return fmt.Errorf("idlehttp: KeepStream has begun the response with status 200, so it can't be %d any more", s.lost)
	}
	if !s.early && !s.headed {
		s.copyHeader()
		s.headed = true
	}
	return nil
}

// Write writes a part of the body.
func (s *keptStream) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.writeHeader(); err != nil {
		return 0, err
	}
	s.clean = false
	return s.write(b)
}

// write is Write of h or of the timer, with s.mu held.
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
	rest := bytes.TrimRight(b, "\r\n")
	return bytes.Count(b[len(rest):], []byte("\n")), len(rest) > 0
}

// Flush sends what has been written.
func (s *keptStream) Flush() { s.FlushError() }

// FlushError is Flush for http.ResponseController.
func (s *keptStream) FlushError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.writeHeader(); err != nil {
		return err
	}
	if err := http.NewResponseController(s.ResponseWriter).Flush(); err != nil {
		return err
	}
	s.clean = true
	if !s.begun {
		s.begun = true
		if !s.maySpeak() {
			s.stop()
		} else if s.timer == nil {
			s.timer = time.AfterFunc(s.comments.Interval, s.keep)
		}
	}
	if s.timer != nil && !s.ended {
		s.timer.Reset(s.comments.Interval)
	}
	return nil
}

// maySpeak reports whether the header of the response allows comments in its body.
func (s *keptStream) maySpeak() bool {
	h := s.ResponseWriter.Header()
	return h.Get("Content-Length") == "" && h.Get("Content-Encoding") == "" && s.comments.suit(h.Get("Content-Type"))
}

// keep writes a comment if the response has been silent for the interval. If it may not be
// written now, the next Flush starts the timer again.
func (s *keptStream) keep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.lost != 0 || s.r.Context().Err() != nil || !s.begun && !s.begin() {
		return
	}
	need, _ := trailingNewlines([]byte(s.comments.Text))
	if !s.clean || s.written && s.newlines < need {
		return
	}
	if s.conn == nil || !s.conn.AwaitAcked() {
		if _, err := s.write([]byte(s.comments.Text)); err != nil {
			return
		}
		if err := http.NewResponseController(s.ResponseWriter).Flush(); err != nil {
			return
		}
	}
	s.timer.Reset(s.comments.Interval)
}

// begin begins the response without h. It fails if h has begun it, though it has not flushed. h may still read the
// request, which net/http would otherwise discard when a response of HTTP/1 begins.
func (s *keptStream) begin() bool {
	if s.headed {
		return false
	}
	http.NewResponseController(s.ResponseWriter).EnableFullDuplex()
	s.ResponseWriter.Header().Set("Content-Type", s.comments.BeginAs)
	s.early, s.begun, s.clean = true, true, true
	return s.maySpeak()
}

// stop stops the timer.
func (s *keptStream) stop() {
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
}

// end stops the comments. Once it has returned, nothing is written. Trailers of h are sent when it has returned.
func (s *keptStream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.ended = true
		s.stop()
		s.copyHeader()
	}
}

// Unwrap is for http.ResponseController.
func (s *keptStream) Unwrap() http.ResponseWriter { return s.ResponseWriter }
