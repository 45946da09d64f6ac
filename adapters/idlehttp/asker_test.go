package idlehttp

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

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
