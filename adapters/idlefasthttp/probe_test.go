package idlefasthttp

import (
	"net"
	"net/http"
	"testing"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
)

// TestProbe: a server that looks for the next request by a short read deadline, and then
// waits without buffers, waits by KeepAliveTimeout all the time.
func TestProbe(t *testing.T) {
	const limit = 600 * ms
	httpsuite.Probed(t, limit, func(t *testing.T, ln net.Listener) (net.Listener, func(net.Conn, http.ConnState)) {
		server := &fasthttp.Server{Handler: func(*fasthttp.RequestCtx) {}}
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
		return l, func(nc net.Conn, to http.ConnState) { server.ConnState(nc, fasthttp.ConnState(to)) }
	})
}
