//go:build proof

package idlehttp

import (
	"net/http"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

// TestBodyLeftToAGoroutine has a goroutine read the body when the handler has returned, as with
// [http.TimeoutHandler]. It gives up after a read. The rest, which net/http reads, is limited all the same. (net/http
// waits for a mutex, so virtual time would stand still.)
func TestBodyLeftToAGoroutine(t *testing.T) {
	const limit = 300 * ms
	first := func(w http.ResponseWriter, r *http.Request) { r.Body.Read(make([]byte, 1)) }
	for name, h := range map[string]http.HandlerFunc{
		"TimeoutHandler": http.TimeoutHandler(http.HandlerFunc(first), limit/3, "").ServeHTTP,
		"goroutine": func(w http.ResponseWriter, r *http.Request) {
			go first(w, r)
			time.Sleep(limit / 3)
		},
	} {
		t.Run(name, func(t *testing.T) {
			httpsuite.Both(t, func(t *testing.T, secure bool) {
				s := start(t, secure, httpsuite.Only(limit, "BodyTimeout"), h)
				c := s.Dial()
				c.Send(httpsuite.Post(100))
				time.Sleep(limit * 2 / 3)
				c.Send("x")
				c.Drain()
				s.WantOnly(1, "request", idle.ReasonRead)
			})
		})
	}
}
