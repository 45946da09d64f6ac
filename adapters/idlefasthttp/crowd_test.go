//go:build proof

package idlefasthttp

import (
	"bufio"
	"crypto/tls"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

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
