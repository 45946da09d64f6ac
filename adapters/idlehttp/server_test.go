package idlehttp

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/http2conn"
	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/adapters/internal/simnet"
	"github.com/idlewheel/idlewheel/idle"
)

// eachProtocol runs a test of a server that is spoken to by HTTP/1, and by HTTP/2.
func eachProtocol(t *testing.T, test func(t *testing.T, http2, secure bool)) {
	for name, http2 := range map[string]bool{"HTTP1": false, "HTTP2": true} {
		t.Run(name, func(t *testing.T) {
			httpsuite.Both(t, func(t *testing.T, secure bool) { test(t, http2, secure) })
		})
	}
}

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
			if _, ok := nc.(*tls.Conn); len(seen) != 1 || ok != secure || !tcp || http2conn.Of(nc) != nil {
				t.Errorf("the hooks see %d connections, one of them a %T with a %T", len(seen), nc, nc.RemoteAddr())
			}
		}
		s.server.Shutdown(t.Context())
		httpsuite.Receive(t, told)
	})
}

// Listeners can share a server, with one that has no timeouts. Each has its own.
func TestListenersOfAServer(t *testing.T) {
	eachProtocol(t, func(t *testing.T, http2, secure bool) {
		synctest.Test(t, func(t *testing.T) {
			reason := idle.ReasonRead
			dial := func(s *site) framed { return framed{s.Dial(), s} }
			get := func(f framed, _ uint32) { f.Get("/") }
			if http2 {
				reason, dial = idle.ReasonReadTotal, (*site).dial2
				get = func(f framed, stream uint32) { f.get(stream) }
			}
			server := &http.Server{Handler: http.HandlerFunc(echo), ErrorLog: silent(t), TLSConfig: httpsuite.ServerTLS()}
			speak2(server, secure)
			var sites []*site
			for _, limits := range []*Timeouts{{KeepAliveTimeout: 600 * ms}, {}, nil} {
				network := simnet.Listen(simnet.Config{Buffer: 64 << 10})
				s := &site{server: server, Site: &httpsuite.Site{T: t, Secure: secure, Listener: httpsuite.Unlimited(network), Memory: network}}
				watchIdle(server, s.Idle)
				if limits != nil {
					l, err := Wrap(server, s.Listener, *limits)
					if err != nil {
						t.Fatal(err)
					}
					s.Listener = l
				}
				sites = append(sites, s)
			}
			served := make(chan error, len(sites))
			var clients []framed
			for _, s := range sites { // when all have been made
				go func() { served <- serve(server, s.Listener, secure) }()
				clients = append(clients, dial(s))
				get(clients[len(clients)-1], 1)
			}
			clients[0].Drain()
			sites[0].WantOnly(1, "keep-alive", reason)
			for _, f := range clients[1:] {
				get(f, 3)
			}
			sites[1].WantNone()
			server.Close()
			for _, s := range sites {
				if err := httpsuite.Receive(t, served); err != nil {
					t.Error(err)
				}
				s.Close()
			}
		})
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
	s.WantOnly(1, "handshake", idle.ReasonReadTotal)
	if text := j.Text(); strings.Count(text, "mine: ") != 3 || strings.Contains(text, "\n\n") || strings.Contains(text, "timeout") {
		t.Errorf("logged:\n%s", text)
	}
}

// A server without a log of its own has the standard one. Handshakes that somebody else's
// deadline has ended are no business of ours.
func TestQuiet(t *testing.T) { // not parallel: there is one standard log
	var j httpsuite.Journal
	log.SetOutput(&j)
	log.SetFlags(0)
	defer log.SetOutput(os.Stderr)
	defer log.SetFlags(log.LstdFlags)
	quiet := quiet(nil)
	ours := &net.OpError{Op: "read", Net: "tcp", Err: &idle.TimeoutError{Reason: idle.ReasonReadTotal, Phase: "handshake", Limit: time.Second, Elapsed: time.Second}}
	quiet.Printf("http: TLS handshake error from %s: %v", "1.2.3.4:5", ours)
	quiet.Printf("http: TLS handshake error from %s: %v", "1.2.3.4:5", os.ErrDeadlineExceeded)
	quiet.Print("something about i/o timeout: handshake: and so on")
	if want := "http: TLS handshake error from 1.2.3.4:5: i/o timeout\nsomething about i/o timeout: handshake: and so on\n"; j.Text() != want {
		t.Errorf("logged:\n%swant:\n%s", j.Text(), want)
	}
}

// Timeouts of a server's own would work against those here, and are refused with an error
// that names the field, its value and what to set instead. The server stays as it was.
func TestRefusedServers(t *testing.T) {
	t.Parallel()
	const own = 3 * time.Second
	for _, test := range []struct {
		server *http.Server
		says   []string
	}{
		{nil, []string{"the server is nil"}},
		{&http.Server{ReadTimeout: own}, []string{"Server.ReadTimeout", "3s", "HeaderTimeout", "BodyTimeout"}},
		{&http.Server{ReadHeaderTimeout: own}, []string{"Server.ReadHeaderTimeout", "3s", "Timeouts.HeaderTimeout"}},
		{&http.Server{WriteTimeout: own}, []string{"Server.WriteTimeout", "3s", "Timeouts.WriteTimeout"}},
		{&http.Server{IdleTimeout: own}, []string{"Server.IdleTimeout", "3s", "Timeouts.KeepAliveTimeout"}},
		{&http.Server{TLSNextProto: handOvers{"spdy/1": nil}}, []string{"Server.TLSNextProto", `"spdy/1"`}},
	} {
		ln := httpsuite.Listen(t)
		l, err := Wrap(test.server, ln, Timeouts{})
		if httpsuite.WantError(t, err, append(test.says, "idlehttp: ")...); err == nil {
			l.Close()
			continue // Serve would serve it
		}
		if s := test.server; s != nil && (s.ConnState != nil || s.ConnContext != nil || s.ErrorLog != nil) {
			t.Error("the server was changed all the same")
		}
		httpsuite.WantError(t, Serve(test.server, ln, Timeouts{}), test.says...)
		httpsuite.WantNoListener(t, ln)
		ln = httpsuite.Listen(t)
		httpsuite.WantError(t, ServeTLS(test.server, ln, "", "", Timeouts{}), test.says...)
		httpsuite.WantNoListener(t, ln)
	}
	server := &http.Server{}
	if _, err := Wrap(server, httpsuite.Listen(t), Timeouts{HeaderTimeout: -2}); err == nil || server.ConnState != nil {
		t.Errorf("%v, and the server has a hook: %v", err, server.ConnState != nil)
	}
	// Timeouts that are off are no objection, nor are protocols that net/http brings along.
	for _, server := range []*http.Server{
		{ReadTimeout: -1, ReadHeaderTimeout: -1, WriteTimeout: -1, IdleTimeout: -1},
		{TLSNextProto: handOvers{}},
		{TLSNextProto: handOvers{"h2": nil, "unencrypted_http2": nil}},
	} {
		l, err := Wrap(server, httpsuite.Listen(t), Timeouts{})
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
	// A server that has ended is not served.
	server.Close()
	ln := httpsuite.Listen(t)
	if err := Serve(server, ln, Timeouts{}); !errors.Is(err, http.ErrServerClosed) {
		t.Errorf("Serve of a closed server: %v", err)
	}
	httpsuite.WantNoListener(t, ln)
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
		s.WantOnly(1, "handshake", idle.ReasonReadTotal)
	}
}

// Watch is for requests of a listener of this package, by HTTP/1.
func TestWatchRefusesForeignRequests(t *testing.T) {
	t.Parallel()
	refuses := func(r *http.Request, says string) {
		httpsuite.WantError(t, Watch(r, idle.Policy{IdleTimeout: time.Second}, Callbacks{}), "idlehttp: ", says)
	}
	refuses(httptest.NewRequest("GET", "/", nil), "listener")
	synctest.Test(t, func(t *testing.T) {
		s := startInMemory(t, true, httpsuite.Off(), func(_ http.ResponseWriter, r *http.Request) { refuses(r, "HTTP/2") })
		s.dial2().get(1)
	})
}

// SetTimeouts switches WriteRate on during a download. It is for what the client takes, so a
// client that takes much more is not ended, though a step of the write takes longer than the
// Grace.
func TestSetTimeoutsSwitchesWriteRateOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Write(make([]byte, 1<<20))
		})}
		network := simnet.Listen(simnet.Config{Buffer: 16 << 10, Kernel: simnet.Whole})
		l, err := Wrap(s, network, Timeouts{WriteRate: idle.Rate{BytesPerSecond: Off}})
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- s.Serve(l) }()
		defer func() { s.Close(); <-served }()
		nc, err := network.Dial()
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		synctest.Wait() // the write waits
		if err := l.SetTimeouts(Timeouts{WriteRate: idle.Rate{BytesPerSecond: 240, Grace: 3 * time.Second}}); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 10<<10)
		for i := range 16 {
			if _, err := io.ReadFull(nc, b); err != nil {
				t.Fatalf("read %d: %v", i, err)
			}
			time.Sleep(500 * time.Millisecond)
			if st := l.Stats(); st.Limits["WriteRate"] > 0 {
				t.Fatalf("ended after read %d, at 20 kB/s", i)
			}
		}
	})
}
