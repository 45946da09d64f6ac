//go:build proof

package idlenet

import (
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

// TestProbe: a server that looks for the next request by a short read deadline, and then
// waits without buffers, waits by ReadTimeout all the time.
func TestProbe(t *testing.T) {
	const limit = 600 * time.Millisecond
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		httpsuite.Probed(t, secure, limit, func(t *testing.T, ln net.Listener) (net.Listener, func(net.Conn, http.ConnState)) {
			l, err := Wrap(ln, idle.Policy{ReadTimeout: limit}, nil)
			if err != nil {
				t.Fatal(err)
			}
			return l, nil
		})
	})
}
