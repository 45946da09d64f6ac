package idlefasthttp

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/idle"
)

// TestIdleConnectionClosesSilently: after requests of all kinds, no byte comes.
func TestIdleConnectionClosesSilently(t *testing.T) {
	t.Parallel()
	flavours(t, func(t *testing.T, start func(*fasthttp.Server, Timeouts) *server) {
		to := limits()
		to.KeepAliveTimeout = limit
		var quiet gate // or the second request may come too late
		to.OnTimeout = quiet.keep
		s := start(&fasthttp.Server{}, to)
		for _, request := range []string{
			"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
			post(3) + "abc",
			post(0),
			"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
			"HEAD / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
		} {
			quiet.shut()
			c := s.dial(t)
			for range 2 {
				c.send(request)
				if strings.HasPrefix(request, "HEAD") {
					for line := ""; line != "\r\n"; {
						var err error
						if line, err = c.in.ReadString('\n'); err != nil {
							t.Fatal(err)
						}
					}
				} else {
					c.response(200)
				}
			}
			quiet.open()
			notBefore(t, c.closed(), c.sent, limit)
			c.Close()
		}
		s.wantPhases(t, "keep-alive", 5)
	})
}

// TestKeepAliveBeginsAnew with each request, and is not that of the handshake,
// the header or the body.
func TestKeepAliveBeginsAnew(t0 *testing.T) {
	t0.Parallel()
	const limit = time.Second
	t := intime.Of(t0, limit/8)
	to := limits()
	to.HandshakeTimeout, to.HeaderTimeout, to.BodyTimeout = limit/4, limit/4, limit/4
	to.KeepAliveTimeout = limit
	to.BodyRate = idle.Rate{BytesPerSecond: 100, Grace: limit / 4}
	s := start(t, &fasthttp.Server{}, to)
	c := s.dial(t)
	for i := range 5 {
		if i%2 == 0 {
			c.get("/")
		} else {
			c.send(post(3) + "abc")
			c.response(200)
		}
		time.Sleep(limit * 6 / 10)
	}
	c.get("/")
	s.noTimeout(t)
	c.closed()
	s.wantPhase(t, "keep-alive")
}

// TestPipelining: many requests at once, cut anywhere.
func TestPipelining(t *testing.T) {
	t.Parallel()
	flavours(t, func(t *testing.T, start func(*fasthttp.Server, Timeouts) *server) {
		s := start(&fasthttp.Server{}, limits())
		c := s.dial(t)
		const n = 20
		all := strings.Repeat("GET /a HTTP/1.1\r\nHost: a\r\n\r\n"+post(5)+"abcde", n)
		go func() {
			for len(all) > 0 {
				cut := min(len(all), 37)
				if _, err := c.Write([]byte(all[:cut])); err != nil {
					return
				}
				all = all[cut:]
			}
		}()
		for range n {
			if a, b := c.response(200), c.response(200); a != "/a 0" || b != "/ 5" {
				t.Errorf("%q %q", a, b)
			}
		}
		c.Close()
		s.shutdown(t)
		s.noTimeout(t)
	})
}

// TestConnectionClose: a connection whose last response was sent is gone by
// itself.
func TestConnectionClose(t *testing.T) {
	t.Parallel()
	s := startTLS(t, &fasthttp.Server{}, limits())
	c := s.dial(t)
	c.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	c.response(200)
	c.closed()
	eventually(t, "it is gone", func() bool { return s.Stats().Gone == 1 })
	if _, ok := c.Conn.(*tls.Conn); !ok {
		t.Error("no TLS")
	}
}
