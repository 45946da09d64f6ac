//go:build proof

package idlehttp

import (
	"crypto/tls"
	"io"
	"net/http"
	"testing"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

// A server without HTTP/2 has none by us.
func TestHTTP2SwitchedOff(t *testing.T) {
	t.Parallel()
	for _, off := range []func(*http.Server){
		func(server *http.Server) {
			server.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
		},
		func(server *http.Server) {
			server.Protocols = new(http.Protocols)
			server.Protocols.SetHTTP1(true)
		},
	} {
		c := start(t, true, all(patience), echo, off).DialBare()
		if got := c.Shake("h2", "http/1.1").ConnectionState().NegotiatedProtocol; got != "http/1.1" {
			t.Errorf("they speak %q", got)
		}
		c.Get("/")
	}
}

// What makes no sense for HTTP/2 is told by the server, as ever.
func TestHTTP2BadConfigIsTold(t *testing.T) {
	t.Parallel()
	server := &http.Server{TLSConfig: httpsuite.ServerTLS()}
	server.TLSConfig.CipherSuites = []uint16{tls.TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA}
	if err := ServeTLS(server, httpsuite.Listen(t), "", "", Timeouts{}); err == nil {
		t.Errorf("serving fails with %v", err)
	}
}

// TestHalfPrefaceWithoutTLS: without TLS, the first bytes of a preface look like a request. So
// HeaderTimeout limits the rest.
func TestHalfPrefaceWithoutTLS(t *testing.T) {
	t.Parallel()
	parts := []int{10, len("PRI * HTTP/2.0\r\n\r\n"), 20, len(preface) - 1}
	s := start2(t, false, httpsuite.Only(300*ms, "HeaderTimeout"), unreachable(t))
	var all []*httpsuite.Client
	for _, n := range parts {
		c := s.Dial()
		io.WriteString(c, preface[:n])
		all = append(all, c)
	}
	for _, c := range all {
		c.Drain()
	}
	s.WantOnly(uint64(len(parts)), "request header", idle.ReasonPhase)
}
