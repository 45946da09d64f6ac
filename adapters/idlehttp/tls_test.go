package idlehttp

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/netutil"

	"github.com/idlewheel/idlewheel/idle"
)

// startTLSListener serves h by Serve, on a listener of crypto/tls.
func startTLSListener(t testing.TB, limits Timeouts, h http.HandlerFunc, protos ...string) *site {
	t.Helper()
	config := &tls.Config{Certificates: []tls.Certificate{identity().certificate}, NextProtos: protos}
	return startOn(t, tls.NewListener(listen(t), config), true, false, limits, h)
}

// describe answers with what the handler is told of TLS.
func describe(w http.ResponseWriter, r *http.Request) {
	fmt.Fprint(w, r.Proto, " ", r.TLS != nil && r.TLS.HandshakeComplete)
}

// On a listener of crypto/tls the handler is told of TLS, as by the bare server.
func TestServeOnATLSListener(t *testing.T) {
	t.Parallel()
	s := startTLSListener(t, all(patience), describe)
	c := s.dial()
	for range 2 {
		c.send(get("/"))
		if got, _ := c.want(http.StatusOK); got != "HTTP/1.1 true" {
			t.Errorf("the handler is told %s", got)
		}
	}
	s.wantNone()
}

func TestServeOnATLSListenerWithHTTP2(t *testing.T) {
	t.Parallel()
	limits := all(patience)
	limits.KeepAliveTimeout = 300 * ms
	s := startTLSListener(t, limits, describe, "h2", "http/1.1")
	if got, err := s.do(context.Background(), s.transport(), "/", nil); got != "HTTP/2.0 true" || err != nil {
		t.Errorf("the handler is told %s; %v", got, err)
	}
	s.wantOnly(1, "keep-alive", idle.ReasonReadTotal)
}

// The limits are those that ServeTLS has.
func TestLimitsOnATLSListener(t *testing.T) {
	t.Parallel()
	limits := all(patience)
	limits.HandshakeTimeout = 300 * ms
	t.Run("handshake", func(t *testing.T) {
		t.Parallel()
		s := startTLSListener(t, limits, unreachable(t))
		c := s.dialBare()
		c.send("\x16\x03\x01")
		notBefore(t, c.wantClosed(), c.begun, limits.HandshakeTimeout)
		s.wantOnly(1, "handshake", idle.ReasonReadTotal)
	})
	t.Run("header", func(t *testing.T) {
		t.Parallel()
		limits := all(patience)
		limits.HeaderTimeout = 300 * ms
		s := startTLSListener(t, limits, describe)
		c := s.dial()
		c.send(get("/"))
		c.want(http.StatusOK)
		begun := c.send("GET")
		_, at := c.want(http.StatusRequestTimeout)
		notBefore(t, at, begun, limits.HeaderTimeout)
		c.wantClosed()
		s.wantOnly(1, "request header", idle.ReasonReadTotal)
	})
}

// TLS behind a wrapper is refused, as nobody would recognise it there.
func TestTLSOutOfReachIsRefused(t *testing.T) {
	t.Parallel()
	config := &tls.Config{Certificates: []tls.Certificate{identity().certificate}}
	for name, wrap := range map[string]func(net.Listener) net.Listener{
		"seen at once":   func(ln net.Listener) net.Listener { return netutil.LimitListener(ln, 1) },
		"seen at Accept": func(ln net.Listener) net.Listener { return opaque{ln} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bare := listen(t)
			client, err := net.Dial("tcp", bare.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			err = Serve(&http.Server{Handler: unreachable(t)}, wrap(tls.NewListener(bare, config)), off())
			for _, want := range []string{"idlehttp: ", "TLS", "ServeTLS", "tls.NewListener(l, config)"} {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("Serve ended with %v, which does not say %q", err, want)
				}
			}
			wantNoListener(t, bare)
			if _, err := client.Read(make([]byte, 1)); !isEnd(err) {
				t.Errorf("the client got %v", err)
			}
		})
	}
}

// opaque is a listener that does not show what it accepts from.
type opaque struct{ hidden net.Listener }

func (o opaque) Accept() (net.Conn, error) { return o.hidden.Accept() }
func (o opaque) Addr() net.Addr            { return o.hidden.Addr() }
func (o opaque) Close() error              { return o.hidden.Close() }
