package idlefasthttp

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
)

const limit = 300 * ms

// flavours runs a test for every way in which a server finds its connections.
func flavours(t *testing.T, test func(t *testing.T, start func(*fasthttp.Server, Timeouts) *server)) {
	for name, set := range map[string]func(*fasthttp.Server){
		"plain":         func(*fasthttp.Server) {},
		"perIP":         func(f *fasthttp.Server) { f.MaxConnsPerIP = 100 },
		"reduced":       func(f *fasthttp.Server) { f.ReduceMemoryUsage = true },
		"reduced perIP": func(f *fasthttp.Server) { f.ReduceMemoryUsage, f.MaxConnsPerIP = true, 100 },
		"streams":       func(f *fasthttp.Server) { f.StreamRequestBody = true },
		"tls":           func(f *fasthttp.Server) { f.TLSConfig = &tls.Config{} },
		"tls streams":   func(f *fasthttp.Server) { f.TLSConfig, f.StreamRequestBody = &tls.Config{}, true },
		"tls perIP":     func(f *fasthttp.Server) { f.TLSConfig, f.MaxConnsPerIP = &tls.Config{}, 100 },
		"tls reduced":   func(f *fasthttp.Server) { f.TLSConfig, f.ReduceMemoryUsage = &tls.Config{}, true },

		"tls listener":         func(*fasthttp.Server) {},
		"tls listener perIP":   func(f *fasthttp.Server) { f.MaxConnsPerIP = 100 },
		"tls listener reduced": func(f *fasthttp.Server) { f.ReduceMemoryUsage = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, func(f *fasthttp.Server, to Timeouts) *server {
				set(f)
				if strings.HasPrefix(name, "tls listener") {
					return startTLSListener(t, f, to)
				}
				return startWith(t, f, to, f.TLSConfig != nil)
			})
		})
	}
}

// TestSilentConnection connects and waits. It gets no answer.
func TestSilentConnection(t *testing.T) {
	t.Parallel()
	flavours(t, func(t *testing.T, start func(*fasthttp.Server, Timeouts) *server) {
		to := limits()
		to.HandshakeTimeout = limit
		s := start(&fasthttp.Server{}, to)
		begun := time.Now()
		c := on(t, s.raw(t))
		notBefore(t, c.closed(), begun, limit)
		s.wantPhase(t, "handshake")
	})
}

// TestHalfOpenHandshake: bytes of a handshake that trickle in extend nothing,
// and what is no TLS is not answered in clear.
func TestHalfOpenHandshake(t *testing.T) {
	t.Parallel()
	to := limits()
	to.HandshakeTimeout = limit
	s := startTLS(t, &fasthttp.Server{}, to)
	begun := time.Now()
	c := on(t, s.raw(t))
	go c.trickle("\x16\x03\x01\x00\xff\x01\x00\x00\xfb\x03\x03"+strings.Repeat("x", 200), limit/20)
	notBefore(t, c.closed(), begun, limit)
	s.wantPhase(t, "handshake")
}

// TestShakenAndSilent: what follows a handshake counts to it until the first
// byte of a request.
func TestShakenAndSilent(t *testing.T) {
	t.Parallel()
	const limit = time.Second
	to := limits()
	to.HandshakeTimeout = limit
	s := startTLS(t, &fasthttp.Server{}, to)
	inTime := intime.Of(t, limit/2)
	begun := time.Now()
	c := s.dial(t)
	if err := c.Conn.(*tls.Conn).Handshake(); err != nil {
		inTime.Fatal(err)
	}
	notBefore(t, c.closed(), begun, limit)
	s.wantPhase(t, "handshake")
}

// TestSlowHeader: half a header, or one that never ends, is answered with 408
// when its time is over.
func TestSlowHeader(t *testing.T) {
	t.Parallel()
	flavours(t, func(t *testing.T, start func(*fasthttp.Server, Timeouts) *server) {
		to := limits()
		to.HeaderTimeout = limit
		s := start(&fasthttp.Server{}, to)
		for _, first := range []bool{true, false} {
			c := s.dial(t)
			if !first { // as the second request of a connection
				c.get("/")
			}
			begun := time.Now()
			go c.trickle("GET / HTTP/1.1\r\nHost: a\r\nX: "+strings.Repeat("x", 200), limit/20)
			notBefore(t, c.refused(408), begun, limit)
			c.Close()
		}
		s.wantPhases(t, "request header", 2)
	})
}

// TestHalfAHeader is one that does not go on at all.
func TestHalfAHeader(t *testing.T) {
	t.Parallel()
	to := limits()
	to.HeaderTimeout = limit
	s := start(t, &fasthttp.Server{}, to)
	c := s.dial(t)
	begun := time.Now()
	c.send("GET / HTTP/1.1\r\nHost")
	notBefore(t, c.refused(408), begun, limit)
	s.wantPhase(t, "request header")
}

// TestOneByteBeforeTheLimit does not extend it, however often there is one.
func TestOneByteBeforeTheLimit(t *testing.T) {
	t.Parallel()
	const limit = 500 * ms
	to := limits()
	to.HeaderTimeout = limit
	s := start(t, &fasthttp.Server{}, to)
	c := s.dial(t)
	time.Sleep(limit) // of the handshake's time, which is not the header's
	c.send("G")
	go c.trickle(strings.Repeat("E", 1000), limit-50*ms)
	notBefore(t, c.refused(408), c.sent, limit)
	s.wantPhase(t, "request header")
}

// TestSlowButTimelyHeader: what arrives within the limit is served, however it
// is cut, and each request has a limit of its own.
func TestSlowButTimelyHeader(t0 *testing.T) {
	t0.Parallel()
	const limit = 2 * time.Second
	t := intime.Of(t0, limit/4)
	to := limits()
	to.HeaderTimeout = limit
	s := start(t, &fasthttp.Server{}, to)
	c := s.dial(t)
	for range 3 { // in all, longer than one
		c.trickle("GET / HTTP/1.1\r\nHost: a\r\n\r\n", limit/2/27)
		if got := c.response(200); got != "/ 0" {
			t.Error(got)
		}
	}
	c.Close()
	s.shutdown(t)
	s.noTimeout(t)
}

// TestSlowHeaderAfterPipelinedOnes: the limit begins when the server waits for
// the rest.
func TestSlowHeaderAfterPipelinedOnes(t *testing.T) {
	t.Parallel()
	to := limits()
	to.HeaderTimeout = limit
	s := start(t, &fasthttp.Server{}, to)
	c := s.dial(t)
	c.send(strings.Repeat("GET / HTTP/1.1\r\nHost: a\r\n\r\n", 5) + "GET /")
	for range 5 {
		c.response(200)
	}
	c.Write([]byte(" ")) // which may be too late
	notBefore(t, c.refused(408), c.sent, limit)
	s.wantPhase(t, "request header")
}

// TestHeaderThatBeganWithTheRequestBefore has its limit from then on.
func TestHeaderThatBeganWithTheRequestBefore(t *testing.T) {
	t.Parallel()
	flavours(t, func(t *testing.T, start func(*fasthttp.Server, Timeouts) *server) {
		to := limits()
		to.HeaderTimeout = limit
		s := start(&fasthttp.Server{}, to)
		for _, first := range []bool{true, false} {
			c := s.dial(t)
			if !first {
				c.get("/")
			}
			begun := time.Now()
			c.send("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HT")
			c.response(200)
			notBefore(t, c.refused(408), begun, limit)
			c.Close()
		}
		s.wantPhases(t, "request header", 2)
	})
}

// TestHeaderAfterOneThatWasWaitedFor is not charged for that.
func TestHeaderAfterOneThatWasWaitedFor(t *testing.T) {
	t.Parallel()
	const limit = time.Second
	inTime := intime.Of(t, limit/4)
	to := limits()
	to.HeaderTimeout = limit
	s := start(t, &fasthttp.Server{}, to)
	c := s.dial(t)
	c.get("/")
	c.send("GET")
	time.Sleep(limit * 6 / 10)
	begun := time.Now()
	c.send(" / HTTP/1.1\r\nHost: a\r\n\r\nGET / HT")
	res, err := http.ReadResponse(c.in, nil)
	if err != nil || res.StatusCode != 200 {
		inTime.Fatal(res, err)
	}
	io.Copy(io.Discard, res.Body)
	notBefore(t, c.refused(408), begun, limit)
	s.wantPhase(t, "request header")
}

// TestHalfAHeaderAfterAHandshake is answered, also if the server tells of the
// handshake's end when it has a part of the header. If it tells before, that part
// must not have come in one packet with the end: then nobody knows of it until
// more comes.
func TestHalfAHeaderAfterAHandshake(t *testing.T) {
	t.Parallel()
	for _, reduced := range []bool{false, true} {
		to := limits()
		to.HeaderTimeout = limit
		active := make(chan bool, 1)
		s := startTLS(t, &fasthttp.Server{ReduceMemoryUsage: reduced, ConnState: func(_ net.Conn, to fasthttp.ConnState) {
			if to == fasthttp.StateActive {
				active <- true
			}
		}}, to)
		c := s.dial(t)
		if err := c.Conn.(*tls.Conn).Handshake(); err != nil {
			t.Fatal(err)
		}
		if !reduced {
			receive(t, active)
		}
		begun := time.Now()
		c.send("GET / HTTP/1.1\r\nHost")
		notBefore(t, c.refused(408), begun, limit)
		s.wantPhase(t, "request header")
	}
}

// TestNoPlaintextInTLS: what carries TLS is never answered in clear, be it
// wrapped or not.
func TestNoPlaintextInTLS(t *testing.T) {
	t.Parallel()
	for _, perIP := range []int{0, 10} {
		to := limits()
		to.HandshakeTimeout, to.HeaderTimeout = 2*limit, limit
		s := startTLS(t, &fasthttp.Server{MaxConnsPerIP: perIP}, to)
		begun := time.Now()
		c := on(t, s.raw(t))
		c.trickle("\x16\x03\x01\x00\xff\x01", 20*ms)
		notBefore(t, c.closed(), begun, 2*limit)
		s.wantPhase(t, "handshake")
		c.Close()
	}
}

// TestSilentAfterTheHandshake: a connection that is made ahead of need, as
// browsers do, may be silent for as long as HandshakeTimeout says.
func TestSilentAfterTheHandshake(t *testing.T) {
	t.Parallel()
	for _, perIP := range []int{0, 10} {
		to := limits()
		to.HeaderTimeout = limit
		s := startTLS(t, &fasthttp.Server{MaxConnsPerIP: perIP}, to)
		c := s.dial(t)
		if err := c.Conn.(*tls.Conn).Handshake(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * limit)
		c.get("/")
		c.Close()
	}
}

// TestPrefaceIsARequest of HTTP/1 to fasthttp, and has the limits of one, as
// have those after it.
func TestPrefaceIsARequest(t *testing.T) {
	t.Parallel()
	to := limits()
	to.BodyTimeout, to.HeaderTimeout = limit, limit
	for _, preface := range []string{"PRI * HTTP/2.0\r\nConnection: keep-alive\r\n", "PRI * HTTP/2.0\r\n"} {
		s := start(t, &fasthttp.Server{}, to)
		c := s.dial(t)
		begun := time.Now()
		c.send(preface + "Content-Length: 100\r\n\r\nabc")
		notBefore(t, c.refused(408), begun, limit)
		s.wantPhase(t, "request")
	}
	s := start(t, &fasthttp.Server{}, to)
	c := s.dial(t)
	c.send("PRI * HTTP/2.0\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx")
	c.response(200)
	begun := time.Now()
	go c.trickle("GET / HTTP/1.1\r\nX: "+strings.Repeat("x", 500), limit/10)
	notBefore(t, c.refused(408), begun, limit)
	s.wantPhase(t, "request header")
}

// TestTricklesAreAnsweredOnce, with 408: what the server itself would say, when
// its Read fails, does not go out, neither before that nor after it.
func TestTricklesAreAnsweredOnce(t *testing.T) {
	t.Parallel()
	to := limits()
	to.HeaderTimeout = limit
	s := start(t, &fasthttp.Server{}, to)
	const n = 200
	var clients []*client
	for range n {
		c := s.dial(t)
		c.send("GET / HTTP/1.1\r\nX: ")
		go c.trickle(strings.Repeat("x", 1000), ms)
		clients = append(clients, c)
	}
	wrong := map[string]int{}
	for _, c := range clients {
		all, _ := io.ReadAll(c.in)
		if i := strings.LastIndex(string(all), "HTTP/1.1 "); i != 0 || !strings.HasPrefix(string(all), "HTTP/1.1 408 ") {
			wrong[fmt.Sprintf("%.12s... %.12s", all, all[max(i, 0):])]++
		}
	}
	if len(wrong) > 0 {
		t.Errorf("of %d: %v", n, wrong)
	}
}
