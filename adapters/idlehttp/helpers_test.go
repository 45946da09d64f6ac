package idlehttp

import (
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/adapters/internal/simnet"
)

func TestMain(m *testing.M) { httpsuite.Main(m, "net/http.(*conn)") }

// limited returns a function for [httpsuite.Start] that prepares server, which speaks TLS by ServeTLS if secure, for
// the timeouts.
func limited(server *http.Server, ln net.Listener, secure bool, limits Timeouts, prepare ...func(*http.Server)) func(io.Writer, func()) (httpsuite.Setup, error) {
	return func(log io.Writer, idle func()) (httpsuite.Setup, error) {
		s := httpsuite.NetHTTP(server, ln, secure, log, idle, prepare...)
		l, err := Wrap(server, ln, limits)
		return httpsuite.Limited(s, l, err, Shutdown, LameDuck)
	}
}

// A site is a server that is being served, for tests of what only this adapter does.
type site struct {
	*httpsuite.Site
	server *http.Server
}

// start serves h on a socket with the timeouts limits, until the end of the test, at which the counts have to add up. A
// line in the server's log fails the test.
func start(t testing.TB, secure bool, limits Timeouts, h http.HandlerFunc, prepare ...func(*http.Server)) *site {
	t.Helper()
	return startOn(t, httpsuite.Listen(t), secure, limits, h, prepare...)
}

// startOn is start with a listener.
func startOn(t testing.TB, ln net.Listener, secure bool, limits Timeouts, h http.HandlerFunc, prepare ...func(*http.Server)) *site {
	t.Helper()
	server := &http.Server{Handler: h}
	return &site{server: server, Site: httpsuite.Start(t, secure, limited(server, ln, secure, limits, prepare...))}
}

// startInMemory is start2 for a test in virtual time, with a network in memory. It is for tests
// that need no socket: net/http gives an HTTP/2 client only 2 s for its SETTINGS, and a busy
// machine may take longer.
func startInMemory(t testing.TB, secure bool, limits Timeouts, h http.HandlerFunc, prepare ...func(*http.Server)) *site {
	t.Helper()
	network := simnet.Listen(simnet.Config{Buffer: 64 << 10})
	s := startOn(t, network, secure, limits, h, append(prepare, func(server *http.Server) { speak2(server, secure) })...)
	s.Memory = network
	return s
}

// startHTTP1 is startInMemory without TLS and without HTTP/2.
func startHTTP1(t testing.TB, limits Timeouts, h http.HandlerFunc) *site {
	t.Helper()
	network := simnet.Listen(simnet.Config{Buffer: 64 << 10})
	s := startOn(t, network, false, limits, h)
	s.Memory = network
	return s
}

// inBubbles runs a test in virtual time, without TLS and with it.
func inBubbles(t *testing.T, test func(t *testing.T, secure bool)) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		synctest.Test(t, func(t *testing.T) { test(t, secure) })
	})
}

// inMemory runs a test of a server and a client of HTTP/1 in inBubbles.
func inMemory(t *testing.T, limits Timeouts, h http.HandlerFunc, test func(t *testing.T, s *site, c *httpsuite.Client)) {
	inBubbles(t, func(t *testing.T, secure bool) {
		s := startInMemory(t, secure, limits, h)
		test(t, s, s.Dial())
	})
}

// unreachable is a handler for tests in which no request may reach one.
func unreachable(t testing.TB) http.HandlerFunc {
	return func(http.ResponseWriter, *http.Request) { t.Error("the handler is called") }
}

// echo answers with the body of the request.
func echo(w http.ResponseWriter, r *http.Request) {
	if b, err := io.ReadAll(r.Body); err == nil {
		w.Write(b)
	}
}

// all is every limit of a phase, as short as limit.
func all(limit time.Duration) Timeouts {
	t := httpsuite.All(limit)
	t.StreamTimeout = limit
	return t
}

const (
	ms       = time.Millisecond
	patience = httpsuite.Patience
)
