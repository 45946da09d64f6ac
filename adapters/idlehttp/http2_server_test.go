package idlehttp

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/idlewheel/idlewheel/adapters/internal/http2conn"
	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

// The hooks of a server see the connections that they would see without us, and
// requests tell of TLS and have the contexts that they would have.
func TestHTTP2Hooks(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		type key struct{}
		var mu sync.Mutex
		var states []http.ConnState
		seen := map[net.Conn]bool{}
		see := func(nc net.Conn) {
			mu.Lock()
			defer mu.Unlock()
			seen[nc] = true
		}
		s := start2(t, secure, all(patience), func(w http.ResponseWriter, r *http.Request) {
			if (r.TLS != nil) != secure || secure && (r.TLS.NegotiatedProtocol != "h2" || !r.TLS.HandshakeComplete) {
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
				see(nc)
				if ctx.Value(key{}) != "base" {
					t.Errorf("the context is %v", ctx)
				}
				return context.WithValue(ctx, key{}, "ours")
			}
			server.ConnState = func(nc net.Conn, to http.ConnState) {
				see(nc)
				mu.Lock()
				defer mu.Unlock()
				states = append(states, to)
			}
		})
		tr := s.transport()
		for range 3 {
			if _, err := s.do(t.Context(), tr, "/", nil); err != nil {
				t.Error(err)
			}
		}
		tr.CloseIdleConnections()
		httpsuite.Eventually(t, "it is closed", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return slices.Contains(states, http.StateClosed)
		})
		mu.Lock()
		defer mu.Unlock()
		if want := []http.ConnState{0, 1, 2, 1, 2, 1, 2, 1, 2, 4}; !slices.Equal(states, want) {
			t.Errorf("the states are %v, want %v", states, want)
		}
		for nc := range seen {
			if _, ok := nc.(*tls.Conn); len(seen) != 1 || ok != secure || http2conn.Of(nc) != nil {
				t.Errorf("the hooks see %d connections, one of them a %T", len(seen), nc)
			}
		}
	})
}

// Listeners can share a server, with one that has no timeouts. Each has its own.
func TestHTTP2Listeners(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		server := &http.Server{Handler: http.HandlerFunc(echo), ErrorLog: silent(t), TLSConfig: httpsuite.ServerTLS()}
		speak2(server, secure)
		var sites []*site
		served := make(chan error, 3)
		short := all(patience)
		short.KeepAliveTimeout = 600 * ms
		for _, limit := range []Timeouts{short, all(patience)} {
			l, err := NewListener(server, httpsuite.Listen(t), limit)
			if err != nil {
				t.Fatal(err)
			}
			sites = append(sites, &site{&httpsuite.Site{Listener: l, T: t, Secure: secure}, server})
		}
		bare := httpsuite.Listen(t)
		sites = append(sites, &site{&httpsuite.Site{Listener: httpsuite.Unlimited(bare), T: t, Secure: secure}, server})
		go func() { served <- serve(server, bare, secure) }()
		for _, s := range sites[:2] {
			go func() { served <- serve(server, s.Listener, secure) }()
		}
		var clients []framed
		for _, s := range sites {
			f := s.dialFramed(defaultWindow)
			f.open(1, postBlock, 0)
			f.data(1, 100, endStream)
			f.wantEnd(1)
			clients = append(clients, f)
		}
		clients[0].Drain()
		sites[0].WantOnly(1, "keep-alive", idle.ReasonReadTotal)
		for _, f := range clients[1:] {
			f.open(3, getBlock, endStream)
			f.wantEnd(3)
		}
		sites[1].WantNone()
		server.Close()
		for _, s := range sites {
			<-served
			s.Close()
		}
	})
}

// The settings of a server hold for HTTP/2, those too that are made after NewListener.
func TestHTTP2Settings(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		var log httpsuite.Journal
		handled := make(chan string, 2)
		s := start2(t, secure, all(patience), func(w http.ResponseWriter, r *http.Request) {
			handled <- r.Method
			panic("on purpose")
		}, func(server *http.Server) {
			server.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 77}
			server.ErrorLog.SetOutput(&log)
			server.ErrorLog.SetPrefix("mine: ")
		})
		s.server.MaxHeaderBytes = 100_000
		s.server.DisableGeneralOptionsHandler = true
		f := s.dialFramed(defaultWindow)
		settings := map[uint16]uint32{}
		f.wantFrame("the server's settings", func(g got) bool {
			for b := g.payload; g.kind == typeSettings && len(b) >= 6; b = b[6:] {
				settings[binary.BigEndian.Uint16(b)] = binary.BigEndian.Uint32(b[2:])
			}
			return len(settings) > 0
		})
		const maxStreams, maxHeaderList = 3, 6
		if n, size := settings[maxStreams], settings[maxHeaderList]; n != 77 || size < 100_000 || size > 101_000 {
			t.Errorf("the settings are %v", settings)
		}
		f.open(1, "\x02\x07OPTIONS\x87\x04\x01*\x41\x04test", endStream)
		if got := httpsuite.Receive(t, handled); got != "OPTIONS" {
			t.Errorf("the handler is called for %s", got)
		}
		httpsuite.Eventually(t, "the panic is logged", func() bool {
			return strings.HasPrefix(log.Text(), "mine: http2: panic serving "+f.LocalAddr().String()+": on purpose\n")
		})
	})
}

// What a handler pushes has the scheme of the request, which the server knows from the
// connection.
func TestHTTP2Push(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		s := start2(t, secure, all(patience), func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/" {
				if err := w.(http.Pusher).Push("/pushed", nil); err != nil {
					t.Error(err)
				}
			}
		})
		f := s.dialFramed(defaultWindow)
		scheme, indexed := "\x86", byte(0x86) // http and https in HPACK's static table
		if secure {
			scheme, indexed = "\x87", 0x87
		}
		f.open(1, "\x82"+scheme+"\x84\x41\x04test", endStream)
		const typePushPromise = 5
		f.wantFrame("a promise", func(g got) bool {
			if g.kind != typePushPromise {
				return false
			}
			if stream := g.code(0); stream != 2 || g.payload[5] != indexed {
				t.Errorf("stream %d is promised with the header %q", stream, g.payload[4:])
			}
			return true
		})
		f.wantEnd(2)
	})
}

// A server speaks HTTP/2 over TLS without being told to, whoever does the TLS.
func TestHTTP2ByDefault(t *testing.T) {
	t.Parallel()
	for name, serve := range map[string]func(server *http.Server, l net.Listener) error{
		"ServeTLS": func(server *http.Server, l net.Listener) error { return server.ServeTLS(l, "", "") },
		"Serve": func(server *http.Server, l net.Listener) error {
			config := server.TLSConfig.Clone()
			config.NextProtos = []string{"h2"}
			return server.Serve(tls.NewListener(l, config))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limits := httpsuite.Off()
			limits.KeepAliveTimeout = 300 * ms
			server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.ProtoMajor != 2 || r.TLS == nil || !r.TLS.HandshakeComplete {
					t.Errorf("the request is of %s, with TLS %v", r.Proto, r.TLS)
				}
			})}
			s := &site{httpsuite.Start(t, true, func(log io.Writer, idle func()) (httpsuite.Setup, error) {
				c := httpsuite.Config{Listener: httpsuite.Listen(t), Timeouts: limits, Log: log, Idle: idle}
				s, err := setup(server, c, true)
				s.Serve = func() error { return ended(serve(server, s.Listener)) }
				return s, err
			}), server}
			f := s.dialFramed(defaultWindow)
			f.open(1, getBlock, endStream)
			f.wantEnd(1)
			f.again(t, ping, 50*ms)
			f.Drain()
			s.WantOnly(1, "keep-alive", idle.ReasonReadTotal)
		})
	}
}

// A server without HTTP/2 has none by us.
func TestHTTP2SwitchedOff(t *testing.T) {
	t.Parallel()
	for name, off := range map[string]func(*http.Server){
		"TLSNextProto": func(server *http.Server) { server.TLSNextProto = handOvers{} },
		"Protocols": func(server *http.Server) {
			server.Protocols = new(http.Protocols)
			server.Protocols.SetHTTP1(true)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, true, all(patience), echo, off)
			c := s.DialBare()
			if got := c.Shake("h2", "http/1.1").ConnectionState().NegotiatedProtocol; got != "http/1.1" {
				t.Errorf("they speak %q", got)
			}
			c.Get("/")
		})
	}
}

// What makes no sense for HTTP/2 is told by the server, as ever.
func TestHTTP2BadConfigIsTold(t *testing.T) {
	t.Parallel()
	server := &http.Server{TLSConfig: httpsuite.ServerTLS()}
	server.TLSConfig.CipherSuites = []uint16{tls.TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA}
	l, err := NewListener(server, httpsuite.Listen(t), Timeouts{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := server.ServeTLS(l, "", ""); err == nil || errors.Is(err, errNowhere) {
		t.Errorf("serving fails with %v", err)
	}
}

// The user's TLS configuration stays as it is.
func TestHTTP2LeavesTheTLSConfig(t *testing.T) {
	t.Parallel()
	server := &http.Server{TLSConfig: httpsuite.ServerTLS("http/1.1")}
	l, err := NewListener(server, httpsuite.Listen(t), Timeouts{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got := server.TLSConfig.NextProtos; !slices.Equal(got, []string{"http/1.1"}) {
		t.Errorf("its protocols are %q", got)
	}
}

// What a client says instead of the preface is logged, and ends the connection.
func TestHTTP2BogusPreface(t *testing.T) {
	t.Parallel()
	var log httpsuite.Journal
	s := start2(t, true, all(patience), unreachable(t), func(server *http.Server) {
		server.ErrorLog.SetOutput(&log)
	})
	c := s.Dial("h2")
	c.Send(httpsuite.Get("/something/else"))
	c.Drain()
	httpsuite.Eventually(t, "it is logged", func() bool {
		return bytes.Contains([]byte(log.Text()), []byte(`bogus greeting "GET /something/else HTTP"`))
	})
}

// OnTimeout is asked about streams as well. One that is kept has its limit anew.
func TestHTTP2OnTimeout(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		limits := slow(300 * ms)
		limits.WriteRate.BytesPerSecond, limits.KeepAliveTimeout = Off, patience
		asked := make(chan *idle.TimeoutError, 10)
		limits.OnTimeout = func(c net.Conn, err *idle.TimeoutError) bool {
			if c.RemoteAddr() == nil {
				t.Error("the connection has no address")
			}
			asked <- err
			return len(asked) < 3
		}
		h, ended := fails()
		s := start2(t, secure, limits, h)
		f := s.dialFramed(noWindow)
		begun := f.open(1, getBlock, endStream)
		httpsuite.NotBefore(t, f.wantReset(1), begun, 3*limits.WriteTimeout)
		httpsuite.Receive(t, ended)
		for range 3 {
			if err := httpsuite.Receive(t, asked); err.Phase != "request stream" || err.Reason != idle.ReasonWrite || err.Setting != "WriteTimeout" {
				t.Errorf("asked about %v", err)
			}
		}
		s.wantReset(1)
	})
}

// A client that is done with is told so.
func TestHTTP2GoAway(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		limits := httpsuite.Off()
		limits.KeepAliveTimeout = 300 * ms
		s := start2(t, secure, limits, echo)
		f := s.dialFramed(defaultWindow)
		f.open(1, getBlock, endStream)
		f.wantEnd(1)
		f.wantFrame("GOAWAY", func(g got) bool { return g.kind == typeGoAway && g.code(0) == 1 && g.code(4) == 0 })
		f.Drain()
	})
}

// Go's own client is served, with many requests at once and large bodies both ways.
func TestHTTP2GoClient(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		s := start2(t, secure, Timeouts{}, func(w http.ResponseWriter, r *http.Request) {
			http.NewResponseController(w).Flush()
			io.Copy(w, r.Body)
		})
		tr := s.transport()
		var all sync.WaitGroup
		for i := range 40 {
			body := bytes.Repeat([]byte{byte(i)}, i*50_000)
			all.Go(func() {
				got, err := s.do(t.Context(), tr, "/", bytes.NewReader(body))
				if err != nil || got != string(body) {
					t.Errorf("%d bytes of %d, %v", len(got), len(body), err)
				}
			})
		}
		all.Wait()
		s.wantReset(0)
		if err := s.server.Shutdown(t.Context()); err != nil && secure { // its connection gets its farewell
			t.Error(err)
		}
	})
}
