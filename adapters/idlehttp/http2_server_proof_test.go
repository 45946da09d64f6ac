//go:build proof

package idlehttp

import (
	"bytes"
	"crypto/tls"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

// start2 starts a server that speaks HTTP/2, by TLS or not.
func start2(t testing.TB, secure bool, limits Timeouts, h http.HandlerFunc, prepare ...func(*http.Server)) *site {
	t.Helper()
	return start(t, secure, limits, h, append(prepare, func(server *http.Server) { speak2(server, secure) })...)
}

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

// A client that takes nothing any more, though it has opened its windows, is cut by the
// write timeout, long before that of streams.
func TestHTTP2DeadClient(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		limits := httpsuite.Only(400*ms, "WriteTimeout")
		ended := make(chan error, 1)
		s := start2(t, secure, limits, func(w http.ResponseWriter, r *http.Request) {
			_, err := w.Write(bytes.Repeat(httpsuite.Large, 2))
			ended <- err
		})
		f := s.dialFramed(1 << 30)
		f.Narrow(16 << 10)
		f.update(0, 1<<30)
		begun := f.open(1, getBlock, endStream)
		if err := httpsuite.Receive(t, ended); err == nil {
			t.Error("all has been written")
		}
		httpsuite.NotBefore(t, time.Now(), begun, limits.WriteTimeout)
		s.WantOnly(1, "streams", idle.ReasonWrite)
	})
}
