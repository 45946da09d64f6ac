//go:build proof

package idlefasthttp

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/internal/httpconn"
	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

const (
	ms    = time.Millisecond
	limit = 300 * ms
)

// A site is a server that is being served, for tests of what only this adapter does.
type site struct {
	*httpsuite.Site
	fast *fasthttp.Server
}

// start serves f, or hello, with the timeouts to until the test ends. By then all has to
// add up, and nothing may have been logged.
func start(t testing.TB, secure bool, f *fasthttp.Server, to Timeouts) *site {
	t.Helper()
	if f.Handler == nil {
		f.Handler = hello
	}
	ln := httpsuite.Listen(t)
	return &site{httpsuite.Start(t, secure, func(log io.Writer, idle func()) (httpsuite.Setup, error) {
		s := httpsuite.FastHTTP(f, ln, secure, log, idle)
		l, err := Wrap(f, ln, to)
		return httpsuite.Limited(s, l, err, Shutdown, LameDuck)
	}), f}
}

// A ReadTimeout that the server's own HeaderReceived returns is a limit beside those of
// the adapter, answered by fasthttp.
func TestReadTimeoutOfARequest(t *testing.T) {
	t.Parallel()
	for _, own := range []time.Duration{limit, time.Minute} {
		to := httpsuite.Only(time.Minute+limit-own, "BodyTimeout")
		s := start(t, false, &fasthttp.Server{HeaderReceived: func(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
			return fasthttp.RequestConfig{ReadTimeout: own}
		}}, to)
		c := s.Dial()
		begun := c.Send(httpsuite.Post(100) + "abc")
		c.Want(http.StatusRequestTimeout)
		httpsuite.NotBefore(t, c.WantClosed(), begun, limit)
		if own == limit {
			s.WantNone()
		} else {
			s.WantOnly(1, "request", idle.ReasonRead)
		}
	}
}

// A pipelined request whose handler is too slow is answered after the request before, whose response fasthttp holds back until then.
func TestPipelinedHandlerTimeout(t *testing.T) {
	t.Parallel()
	to := httpsuite.Only(limit, "HandlerTimeout")
	late := make(chan bool)
	s := start(t, false, &fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) {
		if string(ctx.Path()) == "/slow" {
			<-late
		}
		hello(ctx)
	}}, to)
	c := s.Dial()
	c.Send(httpsuite.Get("/") + httpsuite.Get("/slow"))
	defer close(late)
	for i, status := range []int{http.StatusOK, http.StatusServiceUnavailable} {
		r := c.Response()
		if io.Copy(io.Discard, r.Body); r.StatusCode != status {
			t.Errorf("request %d: %d, want %d", i, r.StatusCode, status)
		}
	}
	c.WantClosed()
	s.WantOnly(1, "request", idle.ReasonPhase)
}

// Watch is for hijacked connections of listeners of this package, and Wrap for servers that don't serve yet.
func TestRefusals(t *testing.T) {
	t.Parallel()
	s := start(t, false, &fasthttp.Server{}, Timeouts{})
	s.Dial().Get("/") // or its end may come before its beginning, for which fasthttp waits
	a, b := net.Pipe()
	defer b.Close()
	defer a.Close()
	err := Watch(a, idle.Policy{IdleTimeout: time.Minute}, Callbacks{})
	if httpsuite.WantError(t, err, "idlefasthttp: Watch of a *net.pipe: "); !errors.Is(err, httpconn.ErrForeign) {
		t.Error(err)
	}
	_, err = Wrap(s.fast, httpsuite.Listen(t), Timeouts{})
	httpsuite.WantError(t, err, "idlefasthttp: the server serves already")
}

// A server whose own timeouts would work against those here, or that cannot work at all,
// is refused, and stays as it was.
func TestRefusedServers(t *testing.T) {
	t.Parallel()
	h2 := &tls.Config{NextProtos: []string{"http/1.1", "h2"}}
	for _, test := range []struct {
		server *fasthttp.Server
		config *tls.Config // of the listener
		to     Timeouts
		says   []string
	}{
		{nil, nil, Timeouts{}, []string{"server is nil"}},
		{&fasthttp.Server{}, nil, Timeouts{}, []string{"Server.Handler", "nil"}},
		{&fasthttp.Server{Handler: hello, ReadTimeout: time.Second}, nil, Timeouts{}, []string{"Server.ReadTimeout", "1s", "HeaderTimeout", "BodyTimeout"}},
		{&fasthttp.Server{Handler: hello, WriteTimeout: time.Second}, nil, Timeouts{}, []string{"Server.WriteTimeout", "1s", "Timeouts.WriteTimeout"}},
		{&fasthttp.Server{Handler: hello, IdleTimeout: time.Second}, nil, Timeouts{}, []string{"Server.IdleTimeout", "1s", "KeepAliveTimeout"}},
		{&fasthttp.Server{Handler: hello, TLSConfig: h2}, nil, Timeouts{}, []string{"NextProtos", `"h2"`}},
		{&fasthttp.Server{Handler: hello}, h2, Timeouts{}, []string{"NextProtos", `"h2"`}},
		{&fasthttp.Server{Handler: hello}, nil, Timeouts{StreamTimeout: time.Minute}, []string{"StreamTimeout", "1m0s", "HTTP/2"}},
		{&fasthttp.Server{Handler: hello}, nil, Timeouts{HeaderTimeout: -2}, []string{"HeaderTimeout", "-2ns"}},
	} {
		test.says = append(test.says, "idlefasthttp: ")
		bare := httpsuite.Listen(t)
		ln := bare
		if test.config != nil {
			ln = tls.NewListener(bare, test.config)
		}
		l, err := Wrap(test.server, ln, test.to)
		if httpsuite.WantError(t, err, test.says...); err == nil {
			l.Close()
			continue // Serve would serve it
		}
		httpsuite.Connect(t, bare.Addr()) // it is still open
		if f := test.server; f != nil && (f.ConnState != nil || f.HeaderReceived != nil) {
			t.Error("the server was changed all the same")
		}
		httpsuite.WantError(t, Serve(test.server, ln, test.to), test.says...)
		if test.config == nil {
			httpsuite.WantError(t, ServeTLS(test.server, httpsuite.Listen(t), "", "", test.to), test.says...)
		}
		httpsuite.WantNoListener(t, bare)
	}
	l, err := Wrap(&fasthttp.Server{Handler: hello, TLSConfig: &tls.Config{NextProtos: []string{"http/1.1", "http/1.0"}}}, httpsuite.Listen(t), Timeouts{})
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

// Hooks of the user are called still, with the server's own connection, and what
// HeaderReceived returns holds.
func TestHooksOfTheUser(t *testing.T) {
	t.Parallel()
	states := make(chan fasthttp.ConnState, 20)
	s := start(t, false, &fasthttp.Server{
		Logger: mute,
		ConnState: func(nc net.Conn, to fasthttp.ConnState) {
			if _, ok := nc.RemoteAddr().(*net.TCPAddr); !ok {
				t.Errorf("a %T", nc.RemoteAddr())
			}
			states <- to
		},
		HeaderReceived: func(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
			return fasthttp.RequestConfig{MaxRequestBodySize: 10}
		},
	}, Timeouts{})
	c := s.Dial()
	c.Send(httpsuite.Post(10) + "0123456789")
	c.Want(http.StatusOK)
	c.Send(httpsuite.Post(11) + "01234567890")
	c.Want(http.StatusBadRequest)
	for _, want := range []fasthttp.ConnState{fasthttp.StateNew, fasthttp.StateActive, fasthttp.StateIdle, fasthttp.StateActive, fasthttp.StateClosed} {
		if got := httpsuite.Receive(t, states); got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

// Listeners of one server have limits of their own, and one need have none.
func TestListenersOfAServer(t *testing.T) {
	t.Parallel()
	f := &fasthttp.Server{Handler: hello}
	listeners := []httpsuite.Listener{httpsuite.Unlimited(httpsuite.Listen(t))}
	for _, keepAlive := range []time.Duration{limit, time.Minute} {
		l, err := Wrap(f, httpsuite.Listen(t), Timeouts{KeepAliveTimeout: keepAlive, HandlerTimeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		listeners = append(listeners, l)
	}
	served := make(chan error, len(listeners))
	var clients []*httpsuite.Client
	for _, l := range listeners { // when all have been made
		go func() { served <- f.Serve(l) }()
		c := httpsuite.Connect(t, l.Addr())
		c.Get("/")
		clients = append(clients, c)
	}
	clients[1].WantClosed()
	for _, i := range []int{0, 2} {
		clients[i].Get("/")
		clients[i].Close()
	}
	httpsuite.NoError(t, f.Shutdown())
	for i, l := range listeners {
		httpsuite.NoError(t, httpsuite.Receive(t, served))
		if n := l.Stats().Phases["keep-alive"]; n != uint64(i%2) {
			t.Errorf("listener %d has %d timeouts", i, n)
		}
	}
}

// A server that was shut down can serve another listener.
func TestServedAgain(t *testing.T) {
	t.Parallel()
	f := &fasthttp.Server{Handler: hello}
	for range 2 {
		s := start(t, false, f, httpsuite.Only(limit, "KeepAliveTimeout"))
		c := s.Dial()
		c.Get("/")
		c.WantClosed()
		s.WantOnly(1, "keep-alive", idle.ReasonPhase)
		s.End()
		httpsuite.Eventually(t, "the server has ended", func() bool { return f.GetOpenConnectionsCount() < 0 })
	}
}

// TestFullServer: those that hold all places are timed out, and make room. Those too many are refused as without the
// adapter: over TLS without an answer.
func TestFullServer(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		to := httpsuite.Only(limit, "KeepAliveTimeout")
		var full httpsuite.Gate
		to.OnTimeout = full.Keep
		s := start(t, secure, &fasthttp.Server{Concurrency: 1, Logger: mute}, to)
		a := s.Dial()
		a.Get("/")
		b := s.DialBare()
		if !secure {
			b.Want(http.StatusServiceUnavailable)
		}
		b.WantClosed()
		full.Open()
		a.WantClosed()
		httpsuite.Eventually(t, "there is room", func() bool {
			c := s.DialBare()
			defer c.Close()
			nc := c.Conn
			if _, config := httpsuite.Identity(); secure {
				nc = tls.Client(nc, config) // its handshake fails while there is none
			}
			if _, err := io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"); err != nil {
				return false
			}
			r, err := http.ReadResponse(bufio.NewReader(nc), nil)
			return err == nil && r.StatusCode == http.StatusOK
		})
		s.WantOnly(1, "keep-alive", idle.ReasonPhase)
	})
}

// TestRefusedDoesNotBlock: a connection that is refused before it is served, and does
// not shake hands, is closed at once, so it doesn't keep the server from accepting others.
func TestRefusedDoesNotBlock(t *testing.T) {
	t.Parallel()
	s := start(t, true, &fasthttp.Server{Concurrency: 1, Logger: mute}, httpsuite.Only(time.Minute))
	s.Dial().Get("/")
	for range 2 {
		s.DialBare().WantClosed()
	}
	s.WantNone()
}
