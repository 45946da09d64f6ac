// Package httpsuite is the conformance suite of the HTTP adapters: tests of what every server
// with [httplimits.Timeouts] promises. It also has the servers, clients and checks that the
// adapters' own tests share.
//
// An adapter describes its server once, as a [Server], and its test is
//
//	func TestConformance(t *testing.T) { httpsuite.Run(t, server) }
package httpsuite

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/idle"
)

// Timeouts are the adapters' Timeouts.
type Timeouts = httplimits.Timeouts

// A Server is a kind of HTTP server with timeouts.
type Server struct {
	Package  string    // the adapter's name, with which its errors begin
	Flavours []Flavour // the ways to set it up

	// Prepare makes a server from a Config.
	Prepare func(Config) (Setup, error)

	// Serve calls the adapter's Serve, or ServeTLS if secure, for a new server that responds
	// with "served" and logs nothing. It returns nil after stop has been closed.
	Serve func(ln net.Listener, t Timeouts, secure bool, certFile string, stop <-chan struct{}) error

	// Hooked wraps a listener for a new server, and returns the hook that the server calls when
	// a connection's state changes. The server isn't started.
	Hooked func(ln net.Listener, t Timeouts) (Hooked, func(net.Conn, http.ConnState), error)

	Phases, Limits int // how many of each Stats counts

	// What servers do differently.

	FirstHeaderInTLS  bool // with TLS too, the first header has HeaderTimeout
	CallsEarly        bool // handlers run before the body has been read
	Cancels           bool // a timeout cancels the request's context
	WriteErrors       bool // a handler's Write fails with the timeout
	ZeroDeadlineLifts bool // a zero read deadline lifts the limits of a body
	SpeaksHTTP2       bool // if there is TLS
	ServesOn          bool // a connection is kept alive after Shutdown has given up
	LogsTrailers      bool // a timeout in a trailer is logged
	RefusesPreface    bool // the preface of HTTP/2 is a bad request
}

// Hooked is a listener of an adapter.
type Hooked interface {
	net.Listener
	Stats() httplimits.Stats
}

// A Flavour is a way to set up a server, such as how it wraps its connections.
type Flavour struct {
	Name        string
	Secure      bool
	TLSListener bool // the listener is from crypto/tls

	// Rare leaves out tests that don't depend on how a connection is wrapped. 0 runs all tests.
	// 1 leaves out those for which a server with TLS and one without are enough. 2 also leaves
	// out tests of hijacking.
	Rare int
}

// A Config says what server Prepare makes.
type Config struct {
	Flavour  Flavour
	Listener net.Listener
	Timeouts Timeouts
	Handler  func(Request)
	Log      io.Writer
	Idle     func() // the server calls it when a connection waits for another request

	StreamBodies bool // handlers start before a large body is complete
}

// A Request is a handler's view of a request and its response.
type Request interface {
	Path() string
	Body() io.Reader
	TLS() bool             // whether the server reports a complete TLS handshake
	Done() <-chan struct{} // closed when the request is cancelled; nil if it never is

	Write(b []byte) (int, error)
	File(name string)
	Content(r io.ReadSeeker, size int)
	Stream(write func(w io.Writer, flush func() error)) // write may be called after the handler has returned

	SetReadDeadline(time.Time) error
	SetDeadline(time.Time) error                   // of the connection
	Hijack(use func(c net.Conn, in *bufio.Reader)) // use may be called after the handler, too, and has to close c

	// Watch is the adapter's. c is from Hijack, or nil if the connection wasn't hijacked.
	Watch(c net.Conn, p idle.Policy, on httplimits.Callbacks) error

	SetLimits(httplimits.RequestLimits) error // the adapter's
}

// A promise is a test of what every server does. in chooses the flavours.
type promise struct {
	name string
	in   func(Flavour) bool
	test func(t *testing.T, u under)
}

// These choose the flavours of a promise.
func everywhere(Flavour) bool { return true }
func wraps(f Flavour) bool    { return f.Rare <= 1 }
func usual(f Flavour) bool    { return f.Rare == 0 }
func plain(f Flavour) bool    { return f.Rare == 0 && !f.Secure }
func secure(f Flavour) bool   { return f.Secure }

// Run runs the conformance suite on a kind of server.
func Run(t *testing.T, server Server) {
	t.Parallel()
	for _, p := range slices.Concat(ofSlowClients(), ofHonestClients(), ofBodies, ofUploads, ofResponses, ofHandlers,
		ofHijacking, ofWatch, ofShutdown, ofServe, ofSteering, ofDrain, ofLeaving, ofOwnLimits, ofFarewells, ofLateRequests, ofProbes) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			for _, f := range server.Flavours {
				if p.in(f) {
					t.Run(f.Name, func(t *testing.T) {
						t.Parallel()
						p.test(t, under{server, f})
					})
				}
			}
		})
	}
}

// under is a server under test, with one of its flavours.
type under struct {
	Server
	Flavour
}

// start starts a server of h with the Timeouts to. It ends with the test.
func (u under) start(t testing.TB, to Timeouts, h func(Request), options ...func(*Config)) *Site {
	t.Helper()
	s := Start(t, u.Secure, func(log io.Writer, idle func()) (Setup, error) {
		c := Config{Flavour: u.Flavour, Timeouts: to, Handler: h, Log: log, Idle: idle}
		for _, set := range options {
			set(&c)
		}
		if c.Listener == nil {
			c.Listener = Listen(t)
		}
		if u.TLSListener {
			c.Listener = tlsListener(c.Listener)
		}
		return u.Prepare(c)
	})
	return s
}

func streamBodies(c *Config) { c.StreamBodies = true }
