package idlefasthttp

import (
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

// TestFullServer: those that hold all places of an address, or of the server, are timed
// out, and make room. Those too many are refused as without the adapter.
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
				b := s.Dial()
				b.Want(test.status)
				b.WantClosed()
				full.Open()
				a.WantClosed()
				httpsuite.Eventually(t, "there is room", func() bool {
					c := s.Dial()
					defer c.Close()
					c.Send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
					return c.Response().StatusCode == http.StatusOK
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
// not shake hands, does not keep the server from accepting others for longer
// than the limits.
func TestRefusedDoesNotBlock(t *testing.T) {
	t.Parallel()
	to := httpsuite.Only(time.Minute)
	to.HandshakeTimeout = limit
	var refused atomic.Value // the others may take their time
	to.OnTimeout = func(c net.Conn, _ *idle.TimeoutError) bool { return c.RemoteAddr().String() != refused.Load() }
	s := start(t, true, &fasthttp.Server{Concurrency: 1, Logger: mute}, to)
	a := s.Dial()
	a.Get("/")
	// Refused, which waits for its handshake, in Accept's goroutine.
	refused.Store(s.DialBare().LocalAddr().String())
	b := s.Dial()
	b.Want(503)
	a.Close()
	httpsuite.Eventually(t, "it is counted", func() bool { return s.Stats().Phases["handshake"] == 1 })
}
