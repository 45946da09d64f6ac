package httpsuite

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/adapters/internal/simnet"
	"github.com/idlewheel/idlewheel/idle"
	"github.com/valyala/fasthttp"
)

func TestMain(m *testing.M) { Main(m, "net/http.(*conn)", "fasthttp.(*Server)") }

// A server is a kind of HTTP server with timeouts.
type server struct {
	pkg      string // the adapter's name, with which its errors begin
	flavours []flavour

	// prepare makes a server from a config.
	prepare func(config) (Setup, error)

	// serve calls the adapter's Serve, or ServeTLS if secure, for a new server that responds
	// with "served" and logs nothing. It returns nil after stop has been closed.
	serve func(ln net.Listener, t Timeouts, secure bool, certFile string, stop <-chan struct{}) error

	// What servers do differently.

	tellsOfHeaders    bool // the server reports the first byte of a header
	firstHeaderInTLS  bool // with TLS too, the first header has HeaderTimeout
	callsEarly        bool // handlers run before the body has been read
	cancels           bool // a timeout cancels the request's context
	writeErrors       bool // a handler's Write fails with the timeout
	zeroDeadlineLifts bool // a zero read deadline lifts the limits of a body
	speaksHTTP2       bool // if there is TLS
	servesOn          bool // a connection is kept alive after Shutdown has given up
	logsTrailers      bool // a timeout in a trailer is logged
	refusesPreface    bool // the preface of HTTP/2 is a bad request
}

// A flavour is a way to set up a server, such as how it wraps its connections.
type flavour struct {
	name        string
	secure      bool
	tlsListener bool // the listener is from crypto/tls

	// rare leaves out tests that don't depend on how a connection is wrapped. 0 runs all tests.
	// 1 leaves out those for which a server with TLS and one without are enough. 2 also leaves
	// out tests of hijacking.
	rare int
}

// A config says what server to prepare.
type config struct {
	flavour  flavour
	listener net.Listener
	timeouts Timeouts
	handler  func(request)
	log      io.Writer
	idle     func() // the server calls it when a connection waits for another request

	streamBodies bool // handlers start before a large body is complete
}

// A request is a handler's view of a request and its response.
type request interface {
	Path() string
	Body() io.Reader
	TLS() bool             // whether the server reports a complete TLS handshake
	Done() <-chan struct{} // closed when the request is cancelled; nil if it never is

	Write(b []byte) (int, error)
	File(name string)
	Content(r io.ReadSeeker, size int)
	Stream(write func(w io.Writer, flush func() error)) // write may be called after the handler has returned

	SetReadDeadline(time.Time) error
	Hijack(use func(c net.Conn, in *bufio.Reader)) // use may be called after the handler, too, and has to close c

	// Watch is the adapter's. c is from Hijack, or nil if the connection wasn't hijacked.
	Watch(c net.Conn, p idle.Policy, on httplimits.Callbacks) error

	SetLimits(httplimits.RequestLimits) error // the adapter's
}

// A promise is a test of what every server does. in chooses the flavours.
type promise struct {
	name string
	in   func(flavour) bool
	test func(t *testing.T, u under)
}

// These choose the flavours of a promise.
func everywhere(flavour) bool { return true }
func wraps(f flavour) bool    { return f.rare <= 1 }
func usual(f flavour) bool    { return f.rare == 0 }
func plain(f flavour) bool    { return f.rare == 0 && !f.secure }
func secure(f flavour) bool   { return f.secure }

// each returns a promise for each of cases.
func each[C any](name string, in func(flavour) bool, cases map[string]C, test func(t *testing.T, u under, which string, c C)) (all []promise) {
	for which, c := range cases {
		all = append(all, promise{name + "/" + which, in, func(t *testing.T, u under) { test(t, u, which, c) }})
	}
	return all
}

func TestNetHTTP(t *testing.T)  { runAll(t, netHTTP) }
func TestFastHTTP(t *testing.T) { warmUp(t); runAll(t, fastHTTP) }

// warmUp starts a goroutine of fasthttp that never ends, outside of virtual time.
func warmUp(t *testing.T) {
	var r fasthttp.Response
	if err := r.Write(bufio.NewWriter(io.Discard)); err != nil {
		t.Fatal(err)
	}
}

// runAll tests a kind of server in virtual time, on a network in memory.
func runAll(t *testing.T, s server) {
	t.Parallel()
	for _, p := range slices.Concat(ofSlowClients(), ofHonestClients(), ofBodies, ofUploads, ofResponses, ofHandlers, ofHijacking, ofWatch,
		ofShutdown, ofServe, ofSteering(), ofDrain, ofLeaving, ofOwnLimits(), ofFarewells()) {
		for _, f := range s.flavours {
			if p.in(f) {
				t.Run(p.name+"/"+f.name, func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						t.Cleanup(func() { time.Sleep(time.Minute) }) // in which goroutines of fasthttp end
						p.test(t, under{s, f, nil})
					})
				})
			}
		}
	}
}

// under is a server under test, with one of its flavours.
type under struct {
	server
	flavour
	listen func() net.Listener // nil for a network in memory
}

// start starts a server of h with the Timeouts to. It ends with the test.
func (u under) start(t testing.TB, to Timeouts, h func(request), options ...func(*config)) *Site {
	t.Helper()
	var memory *simnet.Listener
	s := Start(t, u.secure, func(log io.Writer, idle func()) (Setup, error) {
		c := config{flavour: u.flavour, timeouts: to, handler: h, log: log, idle: idle}
		for _, set := range options {
			set(&c)
		}
		if u.listen != nil {
			c.listener = u.listen()
		} else {
			memory = network()
			c.listener = memory
		}
		if u.tlsListener {
			c.listener = tlsListener(c.listener)
		}
		return u.prepare(c)
	})
	s.Memory = memory
	return s
}

// network returns a listener in memory. Its buffers have room for half a body.
func network() *simnet.Listener {
	return simnet.Listen(simnet.Config{Buffer: 64 << 10, Kernel: simnet.Whole})
}

func streamBodies(c *config) { c.streamBodies = true }

// echo responds with the body of the request.
func echo(r request) {
	if b, err := io.ReadAll(r.Body()); err == nil {
		r.Write(b)
	}
}

// wantTimeout checks that err is a timeout with the given phase and reason, and that net and
// os recognize it as one.
func wantTimeout(t testing.TB, err error, phase string, reason idle.Reason) {
	t.Helper()
	var timeout *idle.TimeoutError
	if !errors.As(err, &timeout) {
		t.Errorf("got %v (%T), want a timeout", err, err)
		return
	}
	setting := Setting(phase, reason)
	if timeout.Phase != phase || timeout.Reason != reason || timeout.Setting != setting ||
		!strings.HasPrefix(timeout.Error(), "i/o timeout: "+phase+": "+setting+" of ") {
		t.Errorf("%v: timed out in the phase %q for %q by %q, want %q, %q and %q", timeout, timeout.Phase, timeout.Reason, timeout.Setting, phase, reason, setting)
	}
	ofRate := reason == idle.ReasonMinReadRate || reason == idle.ReasonMinWriteRate
	if says := strings.Contains(timeout.Error(), " B/s not reached after "); says != ofRate || timeout.Rate.BytesPerSecond > 0 != ofRate {
		t.Errorf("%v has the rate %+v", timeout, timeout.Rate)
	}
	var ne net.Error
	if !errors.As(err, &ne) || !ne.Timeout() || !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), "i/o timeout") {
		t.Errorf("%v (%T) does not look like a timeout", err, err)
	}
}

// expecting is the header of a request whose client waits for 100 Continue before it sends a body
// of ten bytes.
const expecting = "POST / HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n"

// chunked is the header of a request with a chunked body.
const chunked = "POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n"

// Upgrade is a request for which handlers of tests hijack the connection.
const Upgrade = "GET /hijack HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\nUpgrade: lines\r\n\r\n"
