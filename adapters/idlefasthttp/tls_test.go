package idlefasthttp

import (
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
	"golang.org/x/net/netutil"
)

// startTLSListener serves f by Serve, on a listener of crypto/tls.
func startTLSListener(t testing.TB, f *fasthttp.Server, to Timeouts, protos ...string) *server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	config, clients := tlsConfigs(t)
	config.NextProtos = protos
	return startOn(t, f, to, tls.NewListener(ln, config), clients)
}

// TestServeOnATLSListener: the handler is told of TLS, as it is by the bare server.
// The limits of such connections are tested in all flavours.
func TestServeOnATLSListener(t *testing.T) {
	t.Parallel()
	for _, perIP := range []int{0, 100} {
		s := startTLSListener(t, &fasthttp.Server{MaxConnsPerIP: perIP, Handler: func(ctx *fasthttp.RequestCtx) {
			state := ctx.TLSConnectionState()
			fmt.Fprint(ctx, ctx.IsTLS(), state != nil && state.HandshakeComplete)
		}}, limits(), "http/1.1")
		c := s.dial(t)
		for range 2 {
			if got := c.get("/"); got != "true true" {
				t.Errorf("at most %d an address: TLS, and the handshake is complete: %s", perIP, got)
			}
		}
		c.Close()
		s.noTimeout(t)
	}
}

// TestTLSOutOfReachIsRefused: behind a wrapper nobody would recognise it.
func TestTLSOutOfReachIsRefused(t *testing.T) {
	t.Parallel()
	config, _ := tlsConfigs(t)
	for name, wrap := range map[string]func(net.Listener) net.Listener{
		"seen at once":   func(ln net.Listener) net.Listener { return netutil.LimitListener(ln, 1) },
		"seen at Accept": func(ln net.Listener) net.Listener { return opaque{ln} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			client, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			wantError(t, Serve(&fasthttp.Server{Handler: hello}, wrap(tls.NewListener(ln, config)), limits()), "idlefasthttp: ", "TLS", "ServeTLS", "tls.NewListener(l, config)")
			if _, err := ln.Accept(); err == nil || !strings.Contains(err.Error(), "closed") {
				t.Errorf("the listener is not closed: %v", err)
			}
			on(t, client).closed()
		})
	}
}

// TestTLSListenerWithOtherProtocols is refused like a server's config of that kind.
func TestTLSListenerWithOtherProtocols(t *testing.T) {
	t.Parallel()
	config, _ := tlsConfigs(t)
	config.NextProtos = []string{"h2", "http/1.1"}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, Serve(&fasthttp.Server{Handler: hello}, tls.NewListener(ln, config), limits()), "idlefasthttp: ", "NextProtos", `"h2"`)
}

// opaque is a listener that does not show what it accepts from.
type opaque struct{ hidden net.Listener }

func (o opaque) Accept() (net.Conn, error) { return o.hidden.Accept() }
func (o opaque) Addr() net.Addr            { return o.hidden.Addr() }
func (o opaque) Close() error              { return o.hidden.Close() }
