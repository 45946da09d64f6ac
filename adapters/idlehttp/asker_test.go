package idlehttp

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
)

// TestTooLargeBodyIsNotAwaited has a client send a part of a body that is too large. It gets
// the response at once, as from the bare server, and not after the rest, or a timeout.
func TestTooLargeBodyIsNotAwaited(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		s := start(t, secure, all(patience), func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 10)); err != nil {
				http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
			}
		})
		c := s.Dial()
		c.Send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n" + strings.Repeat("a", 50))
		if r := c.Response(); r.StatusCode != http.StatusRequestEntityTooLarge || !r.Close {
			t.Errorf("%s, asks to close: %v", r.Status, r.Close)
		}
	})
}

// TestHandlerInHandler has a handler that calls the server's own with another path, as a
// rewriting one does.
func TestHandlerInHandler(t *testing.T) {
	exchange := exchanger(t, true, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/inner" {
			io.WriteString(w, "inner")
			return
		}
		inner := r.Clone(r.Context())
		inner.URL.Path = "/inner"
		r.Context().Value(http.ServerContextKey).(*http.Server).Handler.ServeHTTP(w, inner)
	})
	for range 2 {
		if got := exchange(); !strings.HasSuffix(got, "\r\n\r\ninner") {
			t.Errorf("got %q", got)
		}
	}
}

// TestWriterAfterHandler is one that a handler has kept. Between two requests it writes
// nothing.
func TestWriterAfterHandler(t *testing.T) {
	var kept http.ResponseWriter
	exchange := exchanger(t, true, func(w http.ResponseWriter, r *http.Request) { kept = w })
	exchange()
	kept.Header().Set("A", "b")
	kept.WriteHeader(http.StatusTeapot)
	if n, err := kept.Write(greeting); n > 0 || !errors.Is(err, errNoRequest) {
		t.Errorf("wrote %d: %v", n, err)
	}
	if got := exchange(); !strings.HasPrefix(got, "HTTP/1.1 200 OK\r\n") {
		t.Errorf("got %q", got)
	}
}
