package idlefasthttp

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/idle"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
)

// TestMaxConnsPerIP: those that hold all places of an address are timed out, and
// make room; those too many are refused by the server as without the adapter.
func TestMaxConnsPerIP(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		to := httpsuite.Only(time.Minute)
		to.KeepAliveTimeout = limit
		var full httpsuite.Gate
		to.OnTimeout = full.Keep
		s := start(t, secure, &fasthttp.Server{MaxConnsPerIP: 2, Logger: mute}, to)
		a, b := s.Dial(), s.Dial()
		a.Get("/")
		b.Get("/")
		c := s.Dial()
		c.Want(429)
		c.WantClosed()
		full.Open()
		a.WantClosed()
		b.WantClosed()
		httpsuite.Eventually(t, "there is room", func() bool { return s.fast.GetOpenConnectionsCount() == 0 })
		s.Dial().Get("/")
		httpsuite.Eventually(t, "both are counted", func() bool { return s.Stats().Phases["keep-alive"] == 2 })
		if st := s.Stats(); st.Gone != 1 {
			t.Errorf("%+v", st)
		}
	})
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
	slow.Refused(408)
	httpsuite.Eventually(t, "all are gone", func() bool { return s.Stats().Live == 0 })
	if st := s.Stats(); st.Gone != 200 {
		t.Errorf("%+v", st)
	}
}

// TestConcurrencyExceeded: the server refuses a connection, which then is gone;
// when another is timed out there is room again.
func TestConcurrencyExceeded(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		to := httpsuite.Only(time.Minute)
		to.KeepAliveTimeout = limit
		var full httpsuite.Gate
		to.OnTimeout = full.Keep
		s := start(t, secure, &fasthttp.Server{Concurrency: 1, Logger: mute}, to)
		a := s.Dial()
		a.Get("/")
		b := s.Dial()
		b.Want(503)
		b.WantClosed()
		full.Open()
		a.WantClosed()
		httpsuite.Eventually(t, "there is room", func() bool { return s.fast.GetOpenConnectionsCount() == 0 })
		httpsuite.Eventually(t, "it is served", func() bool {
			c := s.Dial()
			defer c.Close()
			c.Send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
			status := make([]byte, 12)
			_, err := io.ReadFull(c.In, status)
			return err == nil && string(status) == "HTTP/1.1 200"
		})
		s.WantOnly(1, "keep-alive", idle.ReasonRead)
	})
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
