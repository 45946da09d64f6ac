package idlefasthttp

import (
	"crypto/tls"
	"io"
	"log"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/idle"
)

// mute is for servers that have reason to log.
var mute = log.New(io.Discard, "", 0)

// TestMaxConnsPerIP: those that hold all places of an address are timed out, and
// make room; those too many are refused by the server as without the adapter.
func TestMaxConnsPerIP(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]*tls.Config{"plain": nil, "tls": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := limits()
			to.KeepAliveTimeout = limit
			var full gate
			to.OnTimeout = full.keep
			s := startWith(t, &fasthttp.Server{MaxConnsPerIP: 2, Logger: mute}, to, config != nil)
			a, b := s.dial(t), s.dial(t)
			a.get("/")
			b.get("/")
			c := s.dial(t)
			c.response(429)
			c.closed()
			full.open()
			a.closed()
			b.closed()
			eventually(t, "there is room", func() bool { return s.fast.GetOpenConnectionsCount() == 0 })
			s.dial(t).get("/")
			eventually(t, "both are counted", func() bool { return s.Stats().Phases["keep-alive"] == 2 })
			if st := s.Stats(); st.Gone != 1 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// TestWrappersOfOthers: fasthttp's wrappers are pooled, and limits must hit the
// connection that they belong to: a silent one, while many come and go.
func TestWrappersOfOthers(t *testing.T) {
	t.Parallel()
	to := limits()
	to.HeaderTimeout = 2 * limit
	s := start(t, &fasthttp.Server{MaxConnsPerIP: 1000}, to)
	slow := s.dial(t)
	slow.get("/")
	slow.send("GET / HTTP/1.1\r\n")
	for range 200 {
		c := s.dial(t)
		c.get("/a")
		c.send(post(3) + "abc")
		c.response(200)
		c.Close()
	}
	slow.refused(408)
	eventually(t, "all are gone", func() bool { return s.Stats().Live == 0 })
	if st := s.Stats(); st.Gone != 200 {
		t.Errorf("%+v", st)
	}
}

// TestConcurrencyExceeded: the server refuses a connection, which then is gone;
// when another is timed out there is room again.
func TestConcurrencyExceeded(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]*tls.Config{"plain": nil, "tls": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := limits()
			to.KeepAliveTimeout = limit
			var full gate
			to.OnTimeout = full.keep
			s := startWith(t, &fasthttp.Server{Concurrency: 1, Logger: mute}, to, config != nil)
			a := s.dial(t)
			a.get("/")
			b := s.dial(t)
			b.response(503)
			b.closed()
			full.open()
			a.closed()
			eventually(t, "there is room", func() bool { return s.fast.GetOpenConnectionsCount() == 0 })
			eventually(t, "it is served", func() bool {
				c := s.dial(t)
				defer c.Close()
				c.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
				status := make([]byte, 12)
				_, err := io.ReadFull(c.in, status)
				return err == nil && string(status) == "HTTP/1.1 200"
			})
			s.wantPhases(t, "keep-alive", 1)
		})
	}
}

// TestRefusedDoesNotBlock: a connection that is refused before it is served, and does
// not shake hands, does not keep the server from accepting others for longer
// than the limits.
func TestRefusedDoesNotBlock(t *testing.T) {
	t.Parallel()
	to := limits()
	to.HandshakeTimeout = limit
	var refused atomic.Value // the others may take their time
	to.OnTimeout = func(c net.Conn, _ *idle.TimeoutError) bool { return c.RemoteAddr().String() != refused.Load() }
	s := startTLS(t, &fasthttp.Server{Concurrency: 1, Logger: mute}, to)
	a := s.dial(t)
	a.get("/")
	// Refused, which waits for its handshake, in Accept's goroutine.
	refused.Store(s.raw(t).LocalAddr().String())
	b := s.dial(t)
	b.response(503)
	a.Close()
	eventually(t, "it is counted", func() bool { return s.Stats().Phases["handshake"] == 1 })
}

// TestManyAtOnce: attackers of all kinds, among honest clients.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	n := 300
	if testing.Short() {
		n = 100
	}
	to := limits()
	to.HandshakeTimeout, to.HeaderTimeout, to.BodyTimeout, to.KeepAliveTimeout = limit, limit, limit, limit
	var sent sync.Map // by address; honest clients, and who is about to attack, may take their time
	to.OnTimeout = func(c net.Conn, _ *idle.TimeoutError) bool { _, cut := sent.Load(c.RemoteAddr().String()); return !cut }
	s := start(t, &fasthttp.Server{}, to)
	var attackers []*client
	for i := range n {
		c := s.dial(t)
		c.send([]string{"", "G", post(5) + "a"}[i%3])
		sent.Store(c.LocalAddr().String(), true)
		attackers = append(attackers, c)
		if i%10 == 0 {
			honest := s.dial(t)
			honest.get("/")
			honest.send(post(5) + "abcde")
			honest.response(200)
			honest.Close()
		}
	}
	for i, c := range attackers {
		if i%3 == 0 {
			c.closed()
		} else {
			c.refused(408)
		}
	}
	eventually(t, "all are gone", func() bool { return s.Stats().Live == 0 })
	st := s.Stats()
	honest := uint64((n + 9) / 10)
	if st.Tracked != uint64(n)+honest || st.Gone != honest {
		t.Errorf("%+v", st)
	}
}

// TestAllThatAreAnsweredAreCounted as timed out, though the server closes them.
func TestAllThatAreAnsweredAreCounted(t *testing.T) {
	t.Parallel()
	to := limits()
	to.HeaderTimeout = limit
	s := start(t, &fasthttp.Server{}, to)
	const n = 200
	var clients []*client
	for range n {
		c := s.dial(t)
		c.send("G")
		clients = append(clients, c)
	}
	for _, c := range clients {
		c.refused(408)
	}
	s.wantPhases(t, "request header", n)
}
