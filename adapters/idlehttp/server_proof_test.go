//go:build proof

package idlehttp

import (
	"context"
	"crypto/tls"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
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

// What is not about our timeouts reaches the server's log as before, with its prefix, once.
func TestLogOfOthers(t *testing.T) {
	t.Parallel()
	var j httpsuite.Journal
	limits := httpsuite.Only(300*ms, "HandshakeTimeout")
	var others httpsuite.Gate
	limits.OnTimeout = others.Keep
	s := start(t, true, limits, func(http.ResponseWriter, *http.Request) { panic("on purpose") },
		func(server *http.Server) { server.ErrorLog = log.New(&j, "mine: ", 0) })

	c := s.Dial()
	c.Send(httpsuite.Get("/"))
	c.WantClosed()
	plain := s.DialBare()
	plain.Send(httpsuite.Get("/"))
	plain.Want(http.StatusBadRequest)
	quit := s.DialBare()
	quit.Send("\x16\x03\x01")
	quit.Close()
	for _, want := range []string{
		"mine: http: panic serving " + c.LocalAddr().String() + ": on purpose\n",
		"mine: http: TLS handshake error from " + plain.LocalAddr().String() + ": client sent an HTTP request to an HTTPS server\n",
		"mine: http: TLS handshake error from " + quit.LocalAddr().String() + ": ",
	} {
		httpsuite.Eventually(t, "logged: "+want, func() bool { return strings.Contains(j.Text(), want) })
	}
	others.Open()
	s.DialBare().WantClosed() // this one is not told of
	s.WantOnly(1, "handshake", idle.ReasonPhase)
	if text := j.Text(); strings.Count(text, "mine: ") != 3 || strings.Contains(text, "\n\n") || strings.Contains(text, "timeout") {
		t.Errorf("logged:\n%s", text)
	}
}

// With TLS the end of the handshake is not known: the first header has to come within its
// time, be HeaderTimeout longer than that or shorter.
func TestFirstHeaderWithTLS(t *testing.T) {
	t.Parallel()
	for _, header := range []time.Duration{50 * ms, time.Minute} {
		limits := httpsuite.Off()
		limits.HandshakeTimeout, limits.HeaderTimeout = 500*ms, header
		s := start(t, true, limits, unreachable(t))
		c := s.Dial()
		defer c.Trickle(httpsuite.Get("/")[:20]+strings.Repeat("X", 1000), 30*ms)()
		httpsuite.NotBefore(t, c.WantClosed(), c.Begun, limits.HandshakeTimeout)
		s.WantOnly(1, "handshake", idle.ReasonPhase)
	}
}
