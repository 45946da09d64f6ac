// Package httpsuite is the specification of the HTTP adapters, as tests that run against
// each of them: what a server with [httplimits.Timeouts] promises, whatever its kind.
// It also has the servers, clients and checks that the adapters' own tests share.
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

// Timeouts are those of the adapters.
type Timeouts = httplimits.Timeouts

// A Server is a kind of HTTP server with timeouts.
type Server struct {
	Package  string    // of the adapter, with which its errors begin
	Flavours []Flavour // the ways to set it up

	// Prepare makes a server that does as Config says.
	Prepare func(Config) (Setup, error)

	// Serve calls Serve of the adapter, or ServeTLS if secure, for a new server that
	// answers "served" and logs nothing. It returns nil when stop has been closed.
	Serve func(ln net.Listener, t Timeouts, secure bool, certFile string, stop <-chan struct{}) error

	// Hooked prepares a new server for a listener, and returns the hook by which that tells
	// of the states of connections. It is not served.
	Hooked func(ln net.Listener, t Timeouts) (Hooked, func(net.Conn, http.ConnState), error)

	Phases, Limits int // how many counts Stats has of each

	// What servers do differently.

	FirstHeaderInTLS  bool // the first header has a limit of its own with TLS too
	PipelinedAnswer   bool // a pipelined body that times out is answered
	CallsEarly        bool // handlers run before the body has been read
	Cancels           bool // a timeout cancels the request's context
	WriteErrors       bool // a handler's Write fails with the timeout
	ZeroDeadlineLifts bool // a zero read deadline lifts the limits of a body
	SpeaksHTTP2       bool // with TLS
	ServesOn          bool // a connection is kept alive after Shutdown has given up
	LogsTrailers      bool // a timeout in a trailer is logged
}

// Hooked is a listener of an adapter.
type Hooked interface {
	net.Listener
	Stats() httplimits.Stats
}

// A Flavour is a way to set up a server, in particular how it hides its connections.
type Flavour struct {
	Name        string
	Secure      bool
	TLSListener bool // TLS is by a listener of crypto/tls
	Mute        bool // a timeout cannot be answered
	RaceAtEnd   bool // the server's own Shutdown has a data race

	// Rare limits the tests to those that depend on how a connection is hidden. 0 is for
	// all tests, 1 leaves out those that need no more than a server with TLS and one
	// without, and 2 those of hijacking as well.
	Rare int
}

// A Config is what a Server prepares.
type Config struct {
	Flavour  Flavour
	Listener net.Listener
	Timeouts Timeouts
	Handler  func(Request)
	Log      io.Writer
	Idle     func() // to be called when a connection waits for another request

	StreamBodies bool // handlers get large bodies before they are complete
	KeepHijacked bool // a hijacked connection stays open when its handler returns
}

// A Request is a request and its response, as a handler has them.
type Request interface {
	Path() string
	Body() io.Reader
	TLS() bool             // whether the server tells of a TLS handshake that is complete
	Done() <-chan struct{} // closed when the request is cancelled; nil if it never is

	Write(b []byte) (int, error)
	File(name string)
	Content(r io.ReadSeeker, size int)
	Stream(write func(w io.Writer, flush func() error)) // which may be called after the handler

	SetReadDeadline(time.Time) error
	SetDeadline(time.Time) error                   // of the connection
	Hijack(use func(c net.Conn, in *bufio.Reader)) // likewise; use has to close c

	// Watch is the adapter's. c is what Hijack gave, nil for a connection that was not
	// hijacked.
	Watch(c net.Conn, p idle.Policy, on httplimits.Callbacks) error

	SetLimits(httplimits.RequestLimits) error // the adapter's
}

// A promise is a test of what every server does, and the flavours that matter for it.
type promise struct {
	name string
	in   func(Flavour) bool
	test func(t *testing.T, u under)
}

// The choices of in.
func everywhere(Flavour) bool { return true }
func wraps(f Flavour) bool    { return f.Rare <= 1 }
func usual(f Flavour) bool    { return f.Rare == 0 }
func plain(f Flavour) bool    { return f.Rare == 0 && !f.Secure }
func secure(f Flavour) bool   { return f.Secure }

// Run tests that a kind of server does what all of them promise.
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

// under is a server under test, in one of its flavours.
type under struct {
	Server
	Flavour
}

// start serves h with the timeouts to until the end of the test.
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
	s.mute = u.Mute
	return s
}

func streamBodies(c *Config) { c.StreamBodies = true }
func keepHijacked(c *Config) { c.KeepHijacked = true }
