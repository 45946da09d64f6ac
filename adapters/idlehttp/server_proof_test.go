//go:build proof

package idlehttp

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
)

// The hooks of a server see the connections that they would see without us, and
// requests tell of TLS and have the contexts that they would have.
func TestHooksOfTheUser(t *testing.T) {
	eachProtocol(t, func(t *testing.T, http2, secure bool) {
		type key struct{}
		var mu sync.Mutex
		var events string
		seen, told := map[net.Conn]bool{}, make(chan bool, 1)
		see := func(nc net.Conn, event string) {
			mu.Lock()
			defer mu.Unlock()
			seen[nc], events = true, events+event+" "
		}
		s := start2(t, secure, all(patience), func(w http.ResponseWriter, r *http.Request) {
			if (r.TLS != nil) != secure || secure && ((r.TLS.NegotiatedProtocol == "h2") != http2 || !r.TLS.HandshakeComplete) {
				t.Errorf("the request's TLS is %+v", r.TLS)
			}
			if r.Context().Value(key{}) != "ours" || r.RemoteAddr == "" {
				t.Errorf("the request is from %q with the context %v", r.RemoteAddr, r.Context())
			}
			server, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
			local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
			if server == nil || server.Addr != "the user's" || local == nil || local.String() != r.Host {
				t.Errorf("the context has the server %p and the address %v, want %s", server, local, r.Host)
			}
		}, func(server *http.Server) {
			server.Addr = "the user's"
			server.BaseContext = func(net.Listener) context.Context { return context.WithValue(t.Context(), key{}, "base") }
			server.ConnContext = func(ctx context.Context, nc net.Conn) context.Context {
				see(nc, "context")
				if ctx.Value(key{}) != "base" {
					t.Errorf("the context is %v", ctx)
				}
				return context.WithValue(ctx, key{}, "ours")
			}
			server.ConnState = func(nc net.Conn, to http.ConnState) { see(nc, to.String()) }
			server.RegisterOnShutdown(func() { told <- true })
		})
		tr := s.transport(http2)
		for range 3 {
			s.do(tr, nil)
		}
		want := "context new " + strings.Repeat("active idle ", 3) + "closed "
		if http2 { // there it is Active and Idle before the first request as well
			want = "context new " + strings.Repeat("active idle ", 4) + "closed "
		}
		var got string
		httpsuite.Eventually(t, "the hooks are told of the end", func() bool {
			tr.CloseIdleConnections() // again, as a stream may be open for a moment after its response
			mu.Lock()
			defer mu.Unlock()
			got = events
			return strings.Contains(got, "closed")
		})
		if got != want {
			t.Errorf("the hooks are called for %s, want %s", got, want)
		}
		for nc := range seen {
			_, tcp := nc.RemoteAddr().(*net.TCPAddr)
			if _, ok := nc.(*tls.Conn); len(seen) != 1 || ok != secure || !tcp {
				t.Errorf("the hooks see %d connections, one of them a %T with a %T", len(seen), nc, nc.RemoteAddr())
			}
		}
		s.server.Shutdown(t.Context())
		httpsuite.Receive(t, told)
	})
}
