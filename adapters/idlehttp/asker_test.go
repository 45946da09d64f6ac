package idlehttp

import (
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
