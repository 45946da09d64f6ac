package idlehttp

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// patience is how long a test waits for what must happen. It says nothing of
// how late that may be; a busy machine must not fail a test.
const patience = 30 * time.Second

const ms = time.Millisecond

// off is no limits at all, for tests to set those that they are about.
func off() Timeouts {
	return Timeouts{
		HandshakeTimeout: Off, HeaderTimeout: Off, BodyTimeout: Off, HandlerTimeout: Off,
		WriteTimeout: Off, KeepAliveTimeout: Off, StreamTimeout: Off,
		BodyRate: idle.Rate{BytesPerSecond: Off}, WriteRate: idle.Rate{BytesPerSecond: Off},
	}
}

// all is every limit of a phase, as short as limit.
func all(limit time.Duration) Timeouts {
	t := off()
	t.HandshakeTimeout, t.HeaderTimeout, t.BodyTimeout = limit, limit, limit
	t.WriteTimeout, t.KeepAliveTimeout, t.StreamTimeout = limit, limit, limit
	return t
}

// A site is a server with timeouts that is being served.
type site struct {
	*Listener
	t      testing.TB
	server *http.Server
	secure bool
	served chan error

	// How many responses have been read after which the server waits for another
	// request, and how often it has come to do so.
	answers, idles atomic.Int64
}

// serve serves h with the timeouts limits, until the end of the test, at which
// the counts have to add up. A line in the server's log fails the test.
func serve(t testing.TB, limits Timeouts, h http.HandlerFunc, prepare ...func(*http.Server)) *site {
	t.Helper()
	return start(t, false, limits, h, prepare...)
}

func start(t testing.TB, secure bool, limits Timeouts, h http.HandlerFunc, prepare ...func(*http.Server)) *site {
	t.Helper()
	return startOn(t, listen(t), secure, secure, limits, h, prepare...)
}

// startOn serves h on ln, by ServeTLS if serveTLS; clients speak TLS if secure.
func startOn(t testing.TB, ln net.Listener, secure, serveTLS bool, limits Timeouts, h http.HandlerFunc, prepare ...func(*http.Server)) *site {
	t.Helper()
	server := &http.Server{Handler: h, ErrorLog: log.New(failWriter{t}, "", 0)}
	if serveTLS {
		server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{identity().certificate}}
	}
	for _, f := range prepare {
		f(server)
	}
	s := &site{t: t, server: server, secure: secure, served: make(chan error, 1)}
	s.watch()
	var err error
	if s.Listener, err = NewListener(server, ln, limits); err != nil {
		ln.Close()
		t.Fatal(err)
	}
	l := s.Listener
	go func() {
		if serveTLS {
			s.served <- server.ServeTLS(l, "", "")
		} else {
			s.served <- server.Serve(l)
		}
	}()
	t.Cleanup(s.end)
	return s
}

// watch counts how often a connection of the server becomes idle.
func (s *site) watch() {
	hook := s.server.ConnState
	s.server.ConnState = func(nc net.Conn, to http.ConnState) {
		if to == http.StateIdle {
			s.idles.Add(1)
		}
		if hook != nil {
			hook(nc, to)
		}
	}
}

func (s *site) end() {
	s.server.Close()
	if err := <-s.served; err != http.ErrServerClosed {
		s.t.Errorf("serving ended with %v", err)
	}
	s.Close()
	s.settled()
}

// settled waits until the site has no connection, and checks that its counts add
// up, and returns them.
func (s *site) settled() Stats {
	s.t.Helper()
	var st Stats
	add := func() (reasons, phases, limits uint64) {
		st = s.Stats()
		for _, n := range st.TimedOut {
			reasons += n
		}
		for phase, n := range st.Phases {
			if phase != "request stream" { // which is no connection
				phases += n
			}
		}
		for _, n := range st.Limits {
			limits += n
		}
		return reasons, phases, limits - st.Phases["request stream"]
	}
	eventually(s.t, "no connection is left, and all are counted", func() bool {
		reasons, phases, limits := add()
		return st.Live == 0 && st.Tracked == st.Gone+reasons && reasons == phases && reasons == limits
	})
	return st
}

// wantOnly checks that n connections have timed out in the phase and for the
// reason, and nothing otherwise.
func (s *site) wantOnly(n uint64, phase string, reason idle.Reason) {
	s.t.Helper()
	s.wantConn(n, phase, reason)
	if got := s.Stats().Phases["request stream"]; got > 0 {
		s.t.Errorf("%d streams were reset, want none", got)
	}
}

// settingOf is what ends a connection in the phase for the reason.
func settingOf(phase string, reason idle.Reason) string {
	name := map[string]string{"handshake": "HandshakeTimeout", "request header": "HeaderTimeout", "keep-alive": "KeepAliveTimeout"}[phase]
	switch {
	case name != "":
	case reason == idle.ReasonHeartbeat:
		name = "Heartbeat"
	case reason == idle.ReasonIdle && phase != "streams":
		name = "IdleTimeout"
	default:
		name = map[idle.Reason]string{idle.ReasonRead: "BodyTimeout", idle.ReasonMinReadRate: "BodyRate", idle.ReasonWrite: "WriteTimeout",
			idle.ReasonMinWriteRate: "WriteRate", idle.ReasonPhase: "HandlerTimeout", idle.ReasonIdle: "StreamTimeout"}[reason]
	}
	return name
}

// wantConn is wantOnly of connections; streams may have been reset as well.
func (s *site) wantConn(n uint64, phase string, reason idle.Reason) {
	s.t.Helper()
	var st Stats
	eventually(s.t, "the timeouts are counted", func() bool { st = s.Stats(); return st.Phases[phase] >= n })
	for name, got := range st.Phases {
		if name == "request stream" {
			continue
		}
		if want := map[bool]uint64{true: n}[name == phase]; got != want {
			s.t.Errorf("%d connections timed out in the phase %q, want %d", got, name, want)
		}
	}
	if setting := settingOf(phase, reason); st.Limits[setting] < n {
		s.t.Errorf("%v timed out, want %d by %s", st.Limits, n, setting)
	}
	for r, got := range st.TimedOut {
		if want := map[bool]uint64{true: n}[r == reason]; got != want {
			s.t.Errorf("%d connections timed out for %q, want %d", got, r, want)
		}
	}
}

// wantNone checks that nothing has timed out.
func (s *site) wantNone() {
	s.t.Helper()
	if st := s.Stats(); len(st.TimedOut) > 0 {
		s.t.Errorf("timed out: %v, in %v", st.TimedOut, st.Phases)
	}
}

// failWriter takes a line in the server's log for a failure.
type failWriter struct{ t testing.TB }

func (w failWriter) Write(b []byte) (int, error) {
	w.t.Errorf("net/http logs: %s", b)
	return len(b), nil
}

// identity is a certificate that the tests' clients trust.
var identity = sync.OnceValue(func() (id struct {
	certificate tls.Certificate
	client      *tls.Config
}) {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	id.certificate = s.TLS.Certificates[0]
	id.client = &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "example.com"}
	id.client.RootCAs.AddCert(s.Certificate())
	return id
})

// A client talks HTTP/1 by hand.
type client struct {
	net.Conn
	t     testing.TB
	site  *site
	in    *bufio.Reader
	begun time.Time // before it was connected
}

// dial connects to the site, by TLS if that is what it speaks.
func (s *site) dial() *client {
	s.t.Helper()
	c := s.dialBare()
	if s.secure {
		secure := tls.Client(c.Conn, identity().client)
		if err := secure.Handshake(); err != nil {
			if took := time.Since(c.begun); took > 200*ms {
				s.t.Skipf("inconclusive: the machine let the handshake wait for %v", took)
			}
			s.t.Fatal(err)
		}
		c.Conn = secure
		c.in.Reset(secure)
	}
	return c
}

// dialBare connects to the site, and leaves the handshake to the test.
func (s *site) dialBare() *client {
	s.t.Helper()
	begun := time.Now()
	nc, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		s.t.Fatal(err)
	}
	nc.SetDeadline(time.Now().Add(patience))
	s.t.Cleanup(func() { nc.Close() })
	return &client{nc, s.t, s, bufio.NewReader(nc), begun}
}

// send sends text and returns a time before that.
func (c *client) send(text string) time.Time {
	c.t.Helper()
	before := time.Now()
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Fatalf("sending %.40q: %v", text, err)
	}
	return before
}

// trickle sends text byte by byte, one after each pause, until that fails or the
// returned function is called, which tells how much has been sent.
func (c *client) trickle(text string, pause time.Duration) (stop func() int) {
	quit, sent := make(chan struct{}), make(chan int, 1)
	go func() {
		for i := range len(text) {
			select {
			case <-quit:
			case <-time.After(pause):
				if _, err := io.WriteString(c, text[i:i+1]); err == nil {
					continue
				}
			}
			sent <- i
			return
		}
		sent <- len(text)
	}()
	return sync.OnceValue(func() int { close(quit); return <-sent })
}

// want reads a response with the given status and returns its body, and when it
// was there. If there may be another request, it waits until the server is ready
// for that: what comes earlier is pipelined.
func (c *client) want(status int) (body string, at time.Time) {
	c.t.Helper()
	response, err := http.ReadResponse(c.in, nil)
	if err != nil {
		c.t.Fatalf("got %v, want a response with status %d", err, status)
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	at = time.Now()
	if err != nil {
		c.t.Errorf("the response's body fails: %v", err)
	}
	if response.StatusCode != status {
		c.t.Errorf("got status %d, want %d", response.StatusCode, status)
	}
	if refused := status == http.StatusRequestTimeout || status == http.StatusServiceUnavailable; refused && !response.Close {
		c.t.Errorf("a %d without Connection: close", status)
	}
	if !response.Close {
		c.site.answers.Add(1)
		eventually(c.t, "the connection is idle", func() bool { return c.site.idles.Load() >= c.site.answers.Load() })
	}
	return string(b), at
}

// wantClosed waits for the end of the connection, before which nothing more may
// arrive, and returns when that was.
func (c *client) wantClosed() time.Time {
	c.t.Helper()
	n, err := io.Copy(io.Discard, c.in)
	if n > 0 {
		c.t.Errorf("%d bytes before the end, want none", n)
	}
	if !isEnd(err) {
		c.t.Errorf("got %v, want the end of the connection", err)
	}
	return time.Now()
}

// isEnd reports whether err is one of those by which a connection ends that the
// server has closed.
func isEnd(err error) bool {
	return err == nil || err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// get is a request without a body.
func get(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: test\r\n\r\n" }

// post is the header of a request with a body of so many bytes.
func post(length string) string {
	return "POST / HTTP/1.1\r\nHost: test\r\nContent-Length: " + length + "\r\n\r\n"
}

// echo answers with the body of the request.
func echo(w http.ResponseWriter, r *http.Request) {
	if b, err := io.ReadAll(r.Body); err == nil {
		w.Write(b)
	}
}

// eventually waits until ok returns true.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * ms) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// receive returns what comes from ch.
func receive[T any](t testing.TB, ch <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(patience):
		t.Fatalf("nothing within %v", patience)
	}
	return v
}

// notBefore checks that at is no earlier than limit after start.
func notBefore(t testing.TB, at, start time.Time, limit time.Duration) {
	t.Helper()
	if took := at.Sub(start); took < limit {
		t.Errorf("%v after it began, %v before the limit of %v", took, limit-took, limit)
	}
}

// wantTimeout checks that err is a timeout in the phase and for the reason.
func wantTimeout(t testing.TB, err error, phase string, reason idle.Reason) {
	t.Helper()
	var timeout *idle.TimeoutError
	if !errors.As(err, &timeout) {
		t.Fatalf("got %v (%T), want a timeout", err, err)
	}
	if timeout.Phase != phase || timeout.Reason != reason || timeout.Setting != settingOf(phase, reason) {
		t.Errorf("timed out in the phase %q for %q by %q, want %q and %q", timeout.Phase, timeout.Reason, timeout.Setting, phase, reason)
	}
	if ne, ok := err.(net.Error); !ok || !ne.Timeout() || !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), "i/o timeout") {
		t.Errorf("%v (%T) does not look like a timeout", err, err)
	}
}

// both runs a test without TLS and with it.
func both(t *testing.T, test func(t *testing.T, secure bool)) {
	t.Parallel()
	for name, secure := range map[string]bool{"plain": false, "tls": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, secure)
		})
	}
}
