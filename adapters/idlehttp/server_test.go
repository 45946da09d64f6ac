package idlehttp

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idletest"
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
				s.Setup = httpsuite.NetHTTP(server, network, secure, httpsuite.FailWriter{T: t}, s.Idle)
				if limits != nil {
					l, err := Wrap(server, network, *limits)
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
			_, err := Wrap(server, httpsuite.Listen(t), Timeouts{})
			httpsuite.WantError(t, err, "idlehttp: the server serves already")
			server.Close()
			for _, s := range sites {
				httpsuite.NoError(t, httpsuite.Receive(t, served))
				s.Close()
			}
		})
	})
}

// TestSeveralListenersBeforeServe are fine, and so is one after another has been closed.
func TestSeveralListenersBeforeServe(t *testing.T) {
	server := &http.Server{}
	for range 3 {
		l, err := Wrap(server, httpsuite.Listen(t), Timeouts{})
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		l.Accept()
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
	ours := &net.OpError{Op: "read", Net: "tcp", Err: &idle.TimeoutError{Reason: idle.ReasonPhase, Phase: "handshake", Limit: time.Second, Elapsed: time.Second}}
	quiet.Printf("http: TLS handshake error from %s: %v", "1.2.3.4:5", ours)
	quiet.Printf("http: TLS handshake error from %s: %v", "1.2.3.4:5", os.ErrDeadlineExceeded)
	quiet.Print("something about i/o timeout: handshake: and so on")
	if want := "http: TLS handshake error from 1.2.3.4:5: i/o timeout\nsomething about i/o timeout: handshake: and so on\n"; j.Text() != want {
		t.Errorf("logged:\n%swant:\n%s", j.Text(), want)
	}
}

// What is not about our timeouts reaches the server's log as before, with its prefix, once.
func TestLogOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j httpsuite.Journal
		s := startInMemory(t, true, httpsuite.Only(300*ms, "HandshakeTimeout"), func(http.ResponseWriter, *http.Request) { panic("on purpose") },
			func(server *http.Server) { server.ErrorLog = log.New(&j, "mine: ", 0) })
		c, plain, quit := s.Dial(), s.DialBare(), s.DialBare()
		c.Send(httpsuite.Get("/"))
		c.WantClosed()
		plain.Send(httpsuite.Get("/"))
		plain.Want(http.StatusBadRequest)
		quit.Send("\x16\x03\x01")
		quit.Close()
		s.DialBare().WantClosed() // this one is not told of
		s.WantOnly(1, "handshake", idle.ReasonPhase)
		for _, want := range []string{
			"mine: http: panic serving " + c.LocalAddr().String() + ": on purpose\n",
			"mine: http: TLS handshake error from " + plain.LocalAddr().String() + ": client sent an HTTP request to an HTTPS server\n",
			"mine: http: TLS handshake error from " + quit.LocalAddr().String() + ": ",
		} {
			if !strings.Contains(j.Text(), want) {
				t.Errorf("not logged: %s", want)
			}
		}
		if text := j.Text(); strings.Count(text, "mine: ") != 3 || strings.Contains(text, "\n\n") || strings.Contains(text, "timeout") {
			t.Errorf("logged:\n%s", text)
		}
	})
}

// With TLS the end of the handshake is not known: the first header has to come within its
// time, be HeaderTimeout longer than that or shorter.
func TestFirstHeaderWithTLS(t *testing.T) {
	for _, header := range []time.Duration{50 * ms, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			limits := httpsuite.Off()
			limits.HandshakeTimeout, limits.HeaderTimeout = 500*ms, header
			s := startInMemory(t, true, limits, unreachable(t))
			c := s.Dial()
			defer c.Trickle(httpsuite.Get("/")[:20]+strings.Repeat("X", 1000), 30*ms)()
			httpsuite.NotBefore(t, c.WantClosed(), c.Begun, limits.HandshakeTimeout)
			s.WantOnly(1, "handshake", idle.ReasonPhase)
		})
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

// Watch and SetLimits are for requests of a listener of this package; Watch for HTTP/1, SetLimits until the request ends.
func TestForeignRequests(t *testing.T) {
	t.Parallel()
	watch := func(r *http.Request) error { return Watch(r, idle.Policy{IdleTimeout: time.Second}, Callbacks{}) }
	httpsuite.WantError(t, watch(nil), "idlehttp: Watch: the request is nil")
	httpsuite.WantError(t, SetLimits(nil, RequestLimits{}), "idlehttp: SetLimits: the request is nil")
	foreign := httptest.NewRequest("GET", "/", nil)
	httpsuite.WantError(t, watch(foreign), "idlehttp: ", "listener")
	httpsuite.WantError(t, SetLimits(foreign, RequestLimits{}), "idlehttp: SetLimits: ", "did not arrive")
	synctest.Test(t, func(t *testing.T) {
		s := startInMemory(t, true, httpsuite.Off(), func(_ http.ResponseWriter, r *http.Request) {
			httpsuite.WantError(t, watch(r), "idlehttp: ", "HTTP/2")
			ctx, cancel := context.WithCancel(r.Context())
			cancel()
			httpsuite.WantError(t, SetLimits(r.WithContext(ctx), RequestLimits{}), "idlehttp: SetLimits: ", "cancelled")
		})
		s.dial2().get(1)
	})
}

// SetTimeouts switches WriteRate on during a download. It is for what the client takes, so a
// client that takes much more is not ended, though a step of the write takes longer than the
// Grace.
func TestSetTimeoutsSwitchesWriteRateOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, nc := rawSite(t, 16<<10, Timeouts{WriteRate: idle.Rate{BytesPerSecond: Off}}, writes)
		io.WriteString(nc, httpsuite.Get("/"))
		synctest.Wait() // the write waits
		s.Set(Timeouts{WriteRate: idle.Rate{BytesPerSecond: 240, Grace: 3 * time.Second}})
		for i := range 16 {
			if _, err := io.CopyN(io.Discard, nc, 10<<10); err != nil {
				t.Fatalf("read %d: %v", i, err)
			}
			time.Sleep(500 * ms)
			s.WantNone()
		}
		nc.Close()
	})
}

// serves prepares a server and serves its listener by serve, in a bubble.
func serves(t *testing.T, limits Timeouts, test func(t *testing.T, s *http.Server, l *Listener, pipes *idletest.Listener)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		pipes := idletest.NewListener()
		s := &http.Server{Handler: http.HandlerFunc(echo)}
		l, err := Wrap(s, pipes, limits)
		if err != nil {
			t.Fatal(err)
		}
		test(t, s, l, pipes)
		s.Close()
		l.Close()
	})
}

// dial connects to pipes, and sends text.
func dial(t *testing.T, pipes *idletest.Listener, text string) net.Conn {
	t.Helper()
	nc, err := pipes.Dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	if text != "" {
		go io.WriteString(nc, text)
	}
	return nc
}

// TestServedByAnotherServer is refused at the first connection, and the listener with it. Otherwise HandshakeTimeout
// would cut every connection.
func TestServedByAnotherServer(t *testing.T) {
	serves(t, Timeouts{}, func(t *testing.T, prepared *http.Server, l *Listener, pipes *idletest.Listener) {
		another, err := Wrap(prepared, idletest.NewListener(), Timeouts{}) // that the server serves this one is no excuse
		if err != nil {
			t.Fatal(err)
		}
		go prepared.Serve(another)
		synctest.Wait()
		served := make(chan error)
		go func() { served <- http.Serve(l, nil) }()
		client := dial(t, pipes, "")
		httpsuite.WantError(t, <-served, "idlehttp: a connection has arrived, but the server that was prepared for the listener doesn't serve it")
		if _, err := client.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the connection isn't closed: %v", err)
		}
	})
}

// TestAcceptedBeforeItIsServed: a listener on top may accept before the server begins.
func TestAcceptedBeforeItIsServed(t *testing.T) {
	serves(t, Timeouts{}, func(t *testing.T, s *http.Server, l *Listener, pipes *idletest.Listener) {
		early := earlyListener{l, make(chan net.Conn)}
		go early.accept()
		client := dial(t, pipes, "")
		time.Sleep(500 * ms)
		go s.Serve(early)
		go io.WriteString(client, httpsuite.Get("/"))
		if n, err := client.Read(make([]byte, 100)); n == 0 {
			t.Error(err)
		}
	})
}

// An earlyListener accepts on a goroutine of its own, as a multiplexer does.
type earlyListener struct {
	net.Listener
	accepted chan net.Conn
}

func (l earlyListener) accept() {
	defer close(l.accepted)
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return
		}
		l.accepted <- c
	}
}

func (l earlyListener) Accept() (net.Conn, error) {
	if c, ok := <-l.accepted; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

// TestOwnTimeoutsAfterWrap end Serve before it accepts anything.
func TestOwnTimeoutsAfterWrap(t *testing.T) {
	serves(t, Timeouts{}, func(t *testing.T, s *http.Server, l *Listener, pipes *idletest.Listener) {
		time.AfterFunc(time.Minute, func() { pipes.Close() })
		s.ReadHeaderTimeout = time.Hour
		httpsuite.WantError(t, s.Serve(l), "idlehttp: Server.ReadHeaderTimeout is 1h0m0s; leave it 0")
	})
}

// TestHiddenConnection: if a wrapper hides a connection, nothing is known of its requests, and HandshakeTimeout cuts it.
// The log says so once. It doesn't of one that has been sent nothing, because that may still wait for its server.
func TestHiddenConnection(t *testing.T) {
	var log bytes.Buffer
	serves(t, Timeouts{Idle: idle.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}}, func(t *testing.T, s *http.Server, l *Listener, pipes *idletest.Listener) {
		go s.Serve(hidingListener{l})
		for i, text := range []string{"", httpsuite.Get("/"), httpsuite.Get("/")} {
			io.Copy(io.Discard, dial(t, pipes, text))
			if n := strings.Count(log.String(), "HandshakeTimeout has ended a connection that its server did not report"); n != min(i, 1) {
				t.Errorf("after %d responses it's logged %d times: %s", i, n, &log)
			}
		}
		if st := l.Stats(); st.Limits["HandshakeTimeout"] != 3 {
			t.Errorf("%+v", st)
		}
	})
}

// A hidingListener has connections that give no access to what they wrap.
type hidingListener struct{ net.Listener }

type hiding struct{ embedding }
type embedding struct{ net.Conn }

func (l hidingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return hiding{embedding{c}}, err
}

// TestLameDuckTakenBack cancels a LameDuck, but not another one that has begun meanwhile.
func TestLameDuckTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startHTTP1(t, Timeouts{}, echo)
		asks := func() bool {
			c := s.Dial()
			defer c.Close()
			c.Send(httpsuite.Get("/"))
			return c.Response().Close
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Setup.LameDuck(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) || s.IsDraining() || asks() {
			t.Errorf("it isn't taken back: %v", err)
		}
		ctx, cancel = context.WithCancel(context.Background())
		go s.Setup.LameDuck(ctx, time.Hour)
		go s.Setup.LameDuck(context.Background(), time.Hour)
		synctest.Wait()
		cancel()
		synctest.Wait()
		if !s.IsDraining() || !asks() {
			t.Error("the other one is taken back too")
		}
		time.Sleep(2 * time.Hour)
		if !s.IsDraining() || !asks() {
			t.Error("it ends with its time")
		}
	})
}

// aged are limits for the tests of MaxAge.
func aged() Timeouts {
	t := httpsuite.Off()
	t.MaxAge, t.MaxAgeGrace = time.Minute, 10*time.Second
	return t
}

// wantIn checks that it's so long since begun, or up to two seconds longer.
func wantIn(t *testing.T, begun time.Time, after time.Duration) {
	t.Helper()
	if took := time.Since(begun); took < after || took > after+2*time.Second {
		t.Errorf("it took %v, want %v", took, after)
	}
}

// TestMaxAge: a client that makes requests is asked to leave when MaxAge has passed, and isn't timed out.
func TestMaxAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startHTTP1(t, aged(), echo)
		begun, c, leaves := time.Now(), s.Dial(), false
		for ; !leaves; time.Sleep(time.Second) {
			c.Send(httpsuite.Get("/"))
			leaves = c.Response().Close
		}
		wantIn(t, begun, time.Minute)
		c.WantClosed()
		s.WantNone()
	})
}

// TestMaxAgeOfHTTP2: in HTTP/2 a GOAWAY asks it.
func TestMaxAgeOfHTTP2(t *testing.T) {
	virtual(t, aged(), defaultWindow, echo, func(t *testing.T, f framed) {
		begun, leaves := time.Now(), false
		for stream := uint32(1); !leaves; stream += 2 {
			f.open(stream, getBlock, endStream)
			for ended, answered := false, false; !answered && !(leaves && ended); {
				g, err := f.read()
				if err != nil {
					t.Fatal(err)
				}
				leaves = leaves || g.kind == typeGoAway && g.code(0) == stream && g.code(4) == codeNone
				answered = g.kind == typePing
				if g.stream == stream && g.kind <= typeHeaders && g.flags&endStream != 0 {
					ended = true
					f.Send(ping) // whose answer comes after a GOAWAY
				}
			}
			time.Sleep(time.Second)
		}
		wantIn(t, begun, time.Minute)
		f.Drain()
		f.site.WantNone()
	})
}

// TestMaxAgeGrace: a connection that isn't used is ended when the grace has passed, and so is one within a request.
// With Off it's ended at once; a jitter makes it live longer.
func TestMaxAgeGrace(t *testing.T) {
	jitter := aged()
	jitter.MaxAgeGrace, jitter.MaxAgeJitter = Off, 30*time.Second
	for name, test := range map[string]struct {
		limits      Timeouts
		h           http.HandlerFunc
		least, most time.Duration
	}{
		"idle":   {aged(), echo, 70 * time.Second, 72 * time.Second},
		"busy":   {aged(), waits, 70 * time.Second, 72 * time.Second},
		"jitter": {jitter, echo, time.Minute, 92 * time.Second},
	} {
		want := func(t *testing.T, s *site, took time.Duration) {
			if took < test.least || took > test.most {
				t.Errorf("ended after %v", took)
			}
			if st := s.Settled(); st.Limits["MaxAge"] != 1 {
				t.Errorf("%v", st.Limits)
			}
		}
		t.Run(name, func(t *testing.T) {
			virtual(t, test.limits, defaultWindow, test.h, func(t *testing.T, f framed) {
				begun := f.open(1, getBlock, endStream)
				want(t, f.site, f.Drain().Sub(begun))
			})
			synctest.Test(t, func(t *testing.T) {
				s := startHTTP1(t, test.limits, test.h)
				c := s.Dial()
				begun := c.Send(httpsuite.Get("/"))
				want(t, s, c.Drain().Sub(begun))
			})
		})
	}
}
