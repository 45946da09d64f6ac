package idlehttp

import (
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"testing/synctest"
	"time"

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

// Listeners can share a server, with one that has no timeouts. Each has its own.
func TestListenersOfAServer(t *testing.T) {
	eachProtocol(t, func(t *testing.T, http2, secure bool) {
		synctest.Test(t, func(t *testing.T) {
			dial := func(s *site) framed { return framed{s.Dial(), s} }
			get := func(f framed, _ uint32) { f.Get("/") }
			if http2 {
				dial = (*site).dial2
				get = func(f framed, stream uint32) { f.get(stream) }
			}
			server := &http.Server{Handler: http.HandlerFunc(echo)}
			speak2(server, secure)
			var sites []*site
			for _, limits := range []*Timeouts{{KeepAliveTimeout: 600 * ms}, {}, nil} {
				network := simnet.Listen(simnet.Config{Buffer: 64 << 10})
				s := &site{server: server, Site: &httpsuite.Site{T: t, Secure: secure, Listener: httpsuite.Unlimited(network), Memory: network}}
				setup := httpsuite.NetHTTP(server, network, secure, httpsuite.FailWriter{T: t}, s.Idle)
				if limits != nil {
					l, err := Wrap(server, network, *limits)
					if err != nil {
						t.Fatal(err)
					}
					s.Listener = l
				}
				s.Setup = setup
				sites = append(sites, s)
			}
			served := make(chan error, len(sites))
			var clients []framed
			for _, s := range sites { // when all have been made
				go func() { served <- s.Setup.Serve(s.Listener) }()
				clients = append(clients, dial(s))
				get(clients[len(clients)-1], 1)
			}
			clients[0].Drain()
			sites[0].WantOnly(1, "keep-alive", idle.ReasonPhase)
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

// A server without a log of its own has the standard one. Handshakes that somebody else's
// deadline has ended are no business of ours.
func TestQuiet(t *testing.T) { // not parallel: there is one standard log
	var j httpsuite.Journal
	log.SetOutput(&j)
	log.SetFlags(0)
	defer log.SetOutput(os.Stderr)
	defer log.SetFlags(log.LstdFlags)
	quiet := quiet(nil)
	ours := &net.OpError{Op: "read", Net: "tcp", Err: &idle.TimeoutError{Reason: idle.ReasonPhase, Phase: "handshake", Limit: time.Second, Elapsed: time.Second}}
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
		{&http.Server{TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){"spdy/1": nil}}, []string{"Server.TLSNextProto", `"spdy/1"`}},
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
		{TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){}},
		{TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){"h2": nil, "unencrypted_http2": nil}},
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
