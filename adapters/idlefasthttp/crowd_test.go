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

// TestFullServer: those that hold all places of an address, or of the server, are timed
// out, and make room. Those too many are refused as without the adapter: over TLS without an
// answer.
func TestFullServer(t *testing.T) {
	for name, test := range map[string]struct {
		perIP, concurrency int
		status             int
	}{
		"of an address": {1, 0, http.StatusTooManyRequests},
		"of the server": {0, 1, http.StatusServiceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			httpsuite.Both(t, func(t *testing.T, secure bool) {
				to := httpsuite.Only(limit, "KeepAliveTimeout")
				var full httpsuite.Gate
				to.OnTimeout = full.Keep
				s := start(t, secure, &fasthttp.Server{MaxConnsPerIP: test.perIP, Concurrency: test.concurrency, Logger: mute}, to)
				a := s.Dial()
				a.Get("/")
				b := s.DialBare()
				if !secure {
					b.Want(test.status)
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
				s.WantOnly(1, "keep-alive", idle.ReasonRead)
			})
		})
	}
}

// TestWrappersOfOthers: fasthttp's wrappers are pooled, and limits must hit the
// connection that they belong to: a silent one, while many come and go.
func TestWrappersOfOthers(t *testing.T) {
	t.Parallel()
	to := httpsuite.Only(time.Minute)
	to.HeaderTimeout = 2 * limit
	s := start(t, false, &fasthttp.Server{MaxConnsPerIP: 1000}, to)
	slow := s.Dial()
	slow.Get("/")
	slow.Send("GET / HTTP/1.1\r\n")
	for range 200 {
		c := s.Dial()
		c.Get("/a")
		c.Send(httpsuite.Post(3) + "abc")
		c.Want(200)
		c.Close()
	}
	slow.SetDeadline(time.Now().Add(patience))
	slow.Refused(408)
	httpsuite.Eventually(t, "all are gone", func() bool { return s.Stats().Live == 0 })
	if st := s.Stats(); st.Closed != 200 {
		t.Errorf("%+v", st)
	}
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
