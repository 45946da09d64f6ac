package idlehttp

import (
	"net"
	"net/http"
	"testing"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
)

// TestProbe: a server that looks for the next request by a short read deadline, and then
// waits without buffers, waits by KeepAliveTimeout all the time.
func TestProbe(t *testing.T) {
	const limit = 600 * ms
	httpsuite.Probed(t, limit, func(t *testing.T, ln net.Listener) (net.Listener, func(net.Conn, http.ConnState)) {
		server := &http.Server{}
		to := httpsuite.Only(limit, "KeepAliveTimeout")
		to.HeaderTimeout, to.BodyTimeout = limit/3, limit/3
		l, err := Wrap(server, ln, to)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if st := l.Stats(); st.Phases["keep-alive"] != 1 || st.Limits["KeepAliveTimeout"] != 1 {
				t.Errorf("timed out in %v", st.Phases)
			}
		})
		return l, server.ConnState
	})
}

// TestProbeSavesMemory, with timeouts as without.
func TestProbeSavesMemory(t *testing.T) {
	httpsuite.ProbedMemory(t, func(t *testing.T, ln net.Listener) (net.Listener, func(net.Conn, http.ConnState)) {
		server := &http.Server{}
		l, err := Wrap(server, ln, Timeouts{})
		if err != nil {
			t.Fatal(err)
		}
		return l, server.ConnState
	})
}
