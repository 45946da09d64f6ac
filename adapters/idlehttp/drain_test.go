package idlehttp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idletest"
	"github.com/idlewheel/idlewheel/idle"
)

// TestShutdownAgainAtOnce gives up a Shutdown many times, each followed by another one at once.
// None is refused because of the drain before.
func TestShutdownAgainAtOnce(t *testing.T) {
	inBubble(t, Timeouts{}, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, func(t *testing.T, l *Listener, pipes *idletest.Listener) {
		nc, err := pipes.Dial()
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		synctest.Wait()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		for range 100 {
			if err := Shutdown(ctx, idle.Drain{}, l); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
		if err := Shutdown(context.Background(), idle.Drain{ForceAfter: 10 * time.Millisecond}, l); err != nil {
			t.Error(err)
		}
	})
}
