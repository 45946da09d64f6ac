package idlehttp

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/idle"
)

// unreachable is a handler for tests in which no request may reach one.
func unreachable(t testing.TB) http.HandlerFunc {
	return func(http.ResponseWriter, *http.Request) { t.Error("the handler is called") }
}

func TestConnectAndWait(t *testing.T) {
	t.Parallel()
	limits := off()
	limits.HandshakeTimeout = 300 * ms
	s := serve(t, limits, unreachable(t))
	c := s.dial()
	notBefore(t, c.wantClosed(), c.begun, limits.HandshakeTimeout)
	s.wantOnly(1, "handshake", idle.ReasonReadTotal)
}

// Whoever begins a handshake and does not go on is cut, and nothing is said of
// it in the log.
func TestHalfOpenTLSHandshake(t *testing.T) {
	t.Parallel()
	limits := off()
	limits.HandshakeTimeout = 300 * ms
	s := start(t, true, limits, unreachable(t))
	for name, hello := range map[string]string{
		"nothing":             "",
		"half a record":       "\x16\x03\x01\x01\x00\x01\x00",
		"a trickle of one":    "\x16",
		"no more than a type": "\x16\x03",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := s.dialBare()
			c.t = t
			c.send(hello)
			if strings.HasPrefix(name, "a trickle") {
				defer c.trickle("\x03\x01\x02\x00"+strings.Repeat("\x01", 500), 50*ms)()
			}
			notBefore(t, c.wantClosed(), c.begun, limits.HandshakeTimeout)
		})
	}
	t.Cleanup(func() { s.wantOnly(4, "handshake", idle.ReasonReadTotal) })
}

// The first byte of a request may come as late as the handshake's limit allows,
// and only then the header's begins, which is shorter.
func TestFirstByteLongAfterTheHandshake(t *testing.T) {
	t.Parallel()
	limits := off()
	limits.HandshakeTimeout, limits.HeaderTimeout = patience, 400*ms
	s := serve(t, limits, unreachable(t))
	c := s.dial()
	time.Sleep(700 * ms)
	first := c.send("G")
	_, at := c.want(http.StatusRequestTimeout)
	notBefore(t, at, first, limits.HeaderTimeout)
	c.wantClosed()
	s.wantOnly(1, "request header", idle.ReasonReadTotal)
}

// With TLS the end of the handshake is not known: the first header has to come
// within its time, be HeaderTimeout longer than that or shorter.
func TestFirstHeaderWithTLS(t *testing.T) {
	t.Parallel()
	for _, header := range []time.Duration{50 * ms, time.Minute} {
		t.Run(header.String(), func(t *testing.T) {
			t.Parallel()
			limits := off()
			limits.HandshakeTimeout, limits.HeaderTimeout = 500*ms, header
			s := start(t, true, limits, unreachable(t))
			c := s.dial()
			defer c.trickle(get("/")[:20]+strings.Repeat("X", 1000), 30*ms)()
			notBefore(t, c.wantClosed(), c.begun, limits.HandshakeTimeout)
			s.wantOnly(1, "handshake", idle.ReasonReadTotal)
		})
	}
}

// A header that trickles in cannot extend its limit, be it the first of its
// connection or a later one, and is answered.
func TestHeaderTrickles(t *testing.T) {
	both(t, func(t *testing.T, secure bool) {
		limits := off()
		limits.HeaderTimeout = 400 * ms
		s := start(t, secure, limits, echo)
		c := s.dial()
		if secure { // the first has no limit of its own
			c.send(get("/"))
			c.want(http.StatusOK)
		}
		begun := time.Now()
		stop := c.trickle(get("/")[:20]+strings.Repeat("X: y\r\n", 1000), 30*ms)
		body, at := c.want(http.StatusRequestTimeout)
		notBefore(t, at, begun, limits.HeaderTimeout)
		if body != "Request Timeout" {
			t.Errorf("the answer's body is %q", body)
		}
		c.wantClosed()
		if sent := stop(); sent < 2 {
			t.Skipf("inconclusive: only %d bytes were sent by then", sent)
		}
		s.wantOnly(1, "request header", idle.ReasonReadTotal)
	})
}

func TestHeaderStops(t *testing.T) {
	t.Parallel()
	limits := off()
	limits.HeaderTimeout = 300 * ms
	for name, half := range map[string]string{
		"a byte":           "G",
		"a line":           "GET / HTTP/1.1\r\n",
		"all but the end":  "GET / HTTP/1.1\r\nHost: test\r\n\r",
		"a preface's half": "PRI * HTTP/2.0\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, limits, unreachable(t))
			c := s.dial()
			begun := c.send(half)
			_, at := c.want(http.StatusRequestTimeout)
			notBefore(t, at, begun, limits.HeaderTimeout)
			c.wantClosed()
			s.wantOnly(1, "request header", idle.ReasonReadTotal)
		})
	}
}

// Each request of a connection has its header's limit anew.
func TestHeadersInPieces(t0 *testing.T) {
	t0.Parallel()
	t := intime.Of(t0, 300*ms)
	limits := off()
	limits.HeaderTimeout = time.Second
	s := serve(t, limits, echo)
	c := s.dial()
	for range 4 {
		text := get("/")
		c.send(text[:10])
		time.Sleep(limits.HeaderTimeout / 3)
		c.send(text[10:])
		c.want(http.StatusOK)
	}
	s.wantNone()
}

// A server that is told to speak HTTP/1 only takes the preface of HTTP/2 for a
// request, with the limits of one.
func TestPrefaceToAServerOfHTTP1(t *testing.T) {
	t.Parallel()
	limits := off()
	limits.HandlerTimeout = 300 * ms
	s := serve(t, limits, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, func(server *http.Server) {
		server.Protocols = new(http.Protocols)
		server.Protocols.SetHTTP1(true)
	})
	c := s.dial()
	begun := c.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	_, at := c.want(http.StatusServiceUnavailable)
	notBefore(t, at, begun, limits.HandlerTimeout)
}

// Who says PRI, and is not followed by HTTP/2, is no way around the limits, be
// the server one that speaks it or not.
func TestPretendedPreface(t *testing.T) {
	t.Parallel()
	limits := off()
	limits.HeaderTimeout = 300 * ms
	nothing := func(w http.ResponseWriter, r *http.Request) {}
	for name, begin := range map[string]func(*testing.T) *site{
		"HTTP/1": func(t *testing.T) *site { return serve(t, limits, nothing) },
		"HTTP/2": func(t *testing.T) *site { return start2(t, false, limits, nothing) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begin(t)
			c := s.dial()
			c.send("PRI * HTTP/2.0\r\nHost: test\r\n\r\n")
			response, err := http.ReadResponse(c.in, nil)
			if err != nil {
				t.Fatal(err)
			}
			if response.Close {
				c.wantClosed() // then there is no second request
				return
			}
			begun := time.Now()
			defer c.trickle(get("/")[:20]+strings.Repeat("X: y\r\n", 500), 50*ms)()
			_, at := c.want(http.StatusRequestTimeout)
			notBefore(t, at, begun, limits.HeaderTimeout)
			s.wantOnly(1, "request header", idle.ReasonReadTotal)
		})
	}
}
