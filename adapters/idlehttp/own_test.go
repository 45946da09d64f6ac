package idlehttp

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/idle"
)

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

// A server that is told to speak HTTP/1 only takes the preface of HTTP/2 for a request,
// with the limits of one.
func TestPrefaceToAServerOfHTTP1(t *testing.T) {
	t.Parallel()
	limits := httpsuite.Only(300*ms, "HandlerTimeout")
	s := start(t, false, limits, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, func(server *http.Server) {
		server.Protocols = new(http.Protocols)
		server.Protocols.SetHTTP1(true)
	})
	c := s.Dial()
	begun := c.Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	httpsuite.NotBefore(t, c.Refused(http.StatusServiceUnavailable), begun, limits.HandlerTimeout)
}

// A header that has begun to arrive together with the request before it waits as if it had
// not, as net/http does not tell of it. When more of it comes, it has its limit.
func TestPipelinedHeaderStops(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		limits := httpsuite.Only(300*ms, "KeepAliveTimeout")
		s := start(t, secure, limits, echo)
		c := s.Dial()
		begun := c.Send(httpsuite.Get("/") + "GET / HT")
		c.Want(http.StatusOK)
		httpsuite.NotBefore(t, c.WantClosed(), begun, limits.KeepAliveTimeout)
		s.WantOnly(1, "keep-alive", idle.ReasonRead)
	})
}

func TestNoAnswerOnceTheResponseHasBegun(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		limits := httpsuite.Only(300*ms, "BodyTimeout")
		ended := make(chan error, 1)
		s := start(t, secure, limits, func(w http.ResponseWriter, r *http.Request) {
			rc := http.NewResponseController(w)
			if err := rc.EnableFullDuplex(); err != nil {
				t.Error(err)
			}
			io.WriteString(w, "begun")
			rc.Flush()
			_, err := io.ReadAll(r.Body)
			ended <- err
		})
		c := s.Dial()
		begun := c.Send(httpsuite.Post(10) + "hello")
		got, err := io.ReadAll(c.Response().Body)
		if string(got) != "begun" || !httpsuite.IsEnd(err) || err == nil {
			t.Errorf("got %q and %v, want what had been written, and an end before its time", got, err)
		}
		httpsuite.NotBefore(t, time.Now(), begun, limits.BodyTimeout)
		httpsuite.WantTimeout(t, httpsuite.Receive(t, ended), "request", idle.ReasonRead)
	})
}

// If nobody asks for the body, nobody waits for it.
func TestExpectContinueOfAHandlerThatDoesNotRead(t0 *testing.T) {
	t0.Parallel()
	t := intime.Of(t0, 100*ms)
	limits := all(300 * ms)
	s := start(t, false, limits, func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(3 * limits.BodyTimeout)
		w.WriteHeader(http.StatusForbidden)
	})
	c := s.Dial()
	c.Send("POST / HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n")
	c.Want(http.StatusForbidden)
	s.WantNone()
}

// What net/http does with a hijacked connection that is forgotten.
func TestTrapForgottenHijack(t *testing.T) {
	t.Parallel()
	b := newBare(t, false)
	b.serve(func(w http.ResponseWriter, r *http.Request) {
		nc, _, _ := http.NewResponseController(w).Hijack()
		io.WriteString(nc, "ready\n")
	})
	c := b.Dial()
	c.Send(httpsuite.Upgrade)
	c.Line("ready")
	b.mu.Lock()
	b.conns = nil // or it would not be forgotten
	b.mu.Unlock()
	c.Released()
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
		l, err := NewListener(test.server, ln, Timeouts{})
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
	if _, err := NewListener(server, httpsuite.Listen(t), Timeouts{HeaderTimeout: -2}); err == nil || server.ConnState != nil {
		t.Errorf("%v, and the server has a hook: %v", err, server.ConnState != nil)
	}
	// Timeouts that are off are no objection, nor are protocols that net/http brings along.
	for _, server := range []*http.Server{
		{ReadTimeout: -1, ReadHeaderTimeout: -1, WriteTimeout: -1, IdleTimeout: -1},
		{TLSNextProto: handOvers{}},
		{TLSNextProto: handOvers{"h2": nil, "unencrypted_http2": nil}},
	} {
		l, err := NewListener(server, httpsuite.Listen(t), Timeouts{})
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

// Watch is for requests of a listener of this package.
func TestWatchOfAForeignRequest(t *testing.T) {
	r := httptest.NewRequest("GET", "/", nil)
	if err := Watch(r, idle.Policy{IdleTimeout: time.Second}, nil); err == nil || !strings.HasPrefix(err.Error(), "idlehttp: ") {
		t.Errorf("got %v", err)
	}
}
