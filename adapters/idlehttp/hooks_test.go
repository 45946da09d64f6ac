package idlehttp

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

// The server's hooks still work, and see the connection that they always saw.
func TestHooksOfTheUser(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		type key struct{}
		var mu sync.Mutex
		var states string
		conns, told := map[net.Conn]bool{}, make(chan bool, 1)
		see := func(nc net.Conn, what string) {
			mu.Lock()
			defer mu.Unlock()
			conns[nc], states = true, states+what+" "
		}
		s := start(t, secure, Timeouts{}, func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			if nc, ok := r.Context().Value(key{}).(net.Conn); !ok || !conns[nc] {
				t.Errorf("the context has %v", nc)
			}
		}, func(server *http.Server) {
			server.ConnContext = func(ctx context.Context, nc net.Conn) context.Context {
				see(nc, "context")
				return context.WithValue(ctx, key{}, nc)
			}
			server.ConnState = func(nc net.Conn, to http.ConnState) { see(nc, to.String()) }
			server.RegisterOnShutdown(func() { told <- true })
		})
		c := s.Dial()
		c.Get("/")
		c.Get("/")
		c.Close()
		httpsuite.Eventually(t, "the hooks are called", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return states == "context new active idle active idle closed "
		})
		if len(conns) != 1 {
			t.Errorf("the hooks have seen %d connections", len(conns))
		}
		for nc := range conns {
			if _, tcp := nc.RemoteAddr().(*net.TCPAddr); !tcp {
				t.Errorf("the address is a %T", nc.RemoteAddr())
			}
		}
		s.server.Shutdown(t.Context())
		httpsuite.Receive(t, told)
	})
}

func TestHTTPTestServer(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		limits := httpsuite.Off()
		limits.HandshakeTimeout = 300 * ms
		var shaken httpsuite.Gate
		limits.OnTimeout = shaken.Keep
		s := httptest.NewUnstartedServer(http.HandlerFunc(echo))
		s.Config.ErrorLog = silent(t)
		l, err := NewListener(s.Config, s.Listener, limits)
		if err != nil {
			t.Fatal(err)
		}
		s.Listener = l
		s.EnableHTTP2 = secure
		if secure {
			s.StartTLS()
		} else {
			s.Start()
		}
		response, err := s.Client().Get(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if (response.ProtoMajor == 2) != secure {
			t.Errorf("HTTP/%d", response.ProtoMajor)
		}
		shaken.Open()
		c := httpsuite.Connect(t, l.Addr())
		httpsuite.NotBefore(t, c.WantClosed(), c.Begun, limits.HandshakeTimeout)
		s.Close()
		httpsuite.Eventually(t, "all are gone", func() bool { return l.Stats().Live == 0 })
	})
}

// A server can listen at two doors, each with limits of its own.
func TestTwoListeners(t *testing.T) {
	t.Parallel()
	server := &http.Server{Handler: http.HandlerFunc(echo), ErrorLog: silent(t), TLSConfig: httpsuite.ServerTLS()}
	var log httpsuite.Journal
	server.ConnState = func(nc net.Conn, to http.ConnState) { fmt.Fprintln(&log, to) }
	served := make(chan error, 2)
	var sites []*httpsuite.Site
	for i, limit := range []time.Duration{300 * ms, 600 * ms} {
		limits := httpsuite.Off()
		limits.KeepAliveTimeout = limit
		s := &httpsuite.Site{T: t, Secure: i == 1}
		watchIdle(server, s.Idle)
		l, err := NewListener(server, httpsuite.Listen(t), limits)
		if err != nil {
			t.Fatal(err)
		}
		s.Listener = l
		sites = append(sites, s)
	}
	for _, s := range sites {
		go func() { served <- serve(server, s.Listener, s.Secure) }()
	}
	for i, s := range sites {
		c := s.Dial()
		last := c.Send(httpsuite.Get("/"))
		c.Want(http.StatusOK)
		httpsuite.NotBefore(t, c.WantClosed(), last, time.Duration(i+1)*300*ms)
		s.WantOnly(1, "keep-alive", idle.ReasonRead)
	}
	server.Close()
	for _, s := range sites {
		if err := httpsuite.Receive(t, served); err != nil {
			t.Error(err)
		}
		if st := s.Settled(); st.Tracked != 1 {
			t.Errorf("%+v", st)
		}
	}
	for _, state := range []string{"new", "active", "idle", "closed"} {
		httpsuite.Eventually(t, "the hook is called twice with "+state, func() bool { return strings.Count(log.Text(), state) == 2 })
	}
}
