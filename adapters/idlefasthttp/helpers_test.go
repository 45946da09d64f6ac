package idlefasthttp

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/idle"
)

const ms = time.Millisecond

// quiet is for what is meant to be logged by the tracker.
var quiet = slog.New(slog.DiscardHandler)

// patience is how long a test waits for what must happen. It says nothing of
// how late that may be; a busy machine must not fail a test.
const patience = 30 * time.Second

// TestMain lets many tests run at a time, as they wait most of the time, and
// sees that they leave nothing behind.
func TestMain(m *testing.M) {
	flag.Parse()
	flag.Set("test.parallel", "24")
	if ln, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
		ln.Close() // now package net has the descriptors that it keeps
	}
	files := openFiles()
	code := m.Run()
	if code == 0 {
		code = noneLeft(files)
	}
	os.Exit(code)
}

// noneLeft returns 1 if goroutines or descriptors of the tests are left over.
func noneLeft(files int) int {
	stack, n := "", 0
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * ms) {
		b := make([]byte, 1<<20)
		stack, n = string(b[:runtime.Stack(b, true)]), openFiles()
		ours := strings.Contains(stack, "idle.(*Tracker)") || strings.Contains(stack, "httpconn.") || strings.Contains(stack, "idlenet.")
		if !ours && !strings.Contains(stack, "fasthttp.(*Server)") && n <= files {
			return 0
		}
	}
	fmt.Printf("%d descriptors, there were %d; left are\n%s", n, files, stack)
	return 1
}

func openFiles() int {
	if runtime.GOOS != "linux" {
		return 0
	}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}

// A server is one under test.
type server struct {
	*Listener
	fast   *fasthttp.Server
	tls    *tls.Config  // of its clients; nil if it speaks without
	bare   net.Listener // if it is not the adapter's
	mu     sync.Mutex
	log    []string
	served chan error
	down   sync.Once
}

// Printf notes what the server has to say: nothing, usually.
func (s *server) Printf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, fmt.Sprintf(format, args...))
}

func (s *server) logged() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log
}

// limits are some that no test reaches by accident. Tests shorten those that
// they are about.
func limits() Timeouts {
	const far = time.Minute
	rate := idle.Rate{BytesPerSecond: 1, Grace: far}
	return Timeouts{HandshakeTimeout: far, HeaderTimeout: far, BodyTimeout: far, BodyRate: rate,
		WriteTimeout: far, WriteRate: rate, KeepAliveTimeout: far}
}

// hello is the usual handler.
func hello(ctx *fasthttp.RequestCtx) {
	fmt.Fprintf(ctx, "%s %d", ctx.Path(), len(ctx.PostBody()))
}

// start serves f, or hello, on loopback with the timeouts to, until the test
// ends. By then all has to add up, and the log has to be empty.
func start(t testing.TB, f *fasthttp.Server, to Timeouts) *server {
	t.Helper()
	return startWith(t, f, to, false)
}

func startTLS(t testing.TB, f *fasthttp.Server, to Timeouts) *server {
	t.Helper()
	return startWith(t, f, to, true)
}

func startWith(t testing.TB, f *fasthttp.Server, to Timeouts, secure bool) *server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if !secure {
		return startOn(t, f, to, ln, nil)
	}
	config, clients := tlsConfigs(t)
	f.TLSConfig = config
	return startOn(t, f, to, ln, clients)
}

// startOn serves f on ln, by ServeTLS if it has a TLSConfig. clients is the config
// of its clients, nil if they speak without TLS.
func startOn(t testing.TB, f *fasthttp.Server, to Timeouts, ln net.Listener, clients *tls.Config) *server {
	t.Helper()
	s := &server{fast: f, tls: clients, served: make(chan error, 1)}
	if f.Handler == nil {
		f.Handler = hello
	}
	if f.Logger == nil {
		f.Logger = s
	}
	var err error
	if s.Listener, err = NewListener(f, ln, to); err != nil {
		ln.Close()
		t.Fatal(err)
	}
	go func() {
		if f.TLSConfig == nil {
			s.served <- f.Serve(s.Listener)
		} else {
			s.served <- f.ServeTLS(s.Listener, "", "")
		}
	}()
	t.Cleanup(func() {
		s.shutdown(t)
		s.addsUp(t)
		if log := s.logged(); len(log) > 0 {
			t.Errorf("the server has logged %q", log)
		}
	})
	return s
}

// shutdown ends the server, and waits for its connections to be gone.
func (s *server) shutdown(t testing.TB) {
	t.Helper()
	s.down.Do(func() {
		s.settle(t)
		ctx, cancel := context.WithTimeout(context.Background(), 10*ms)
		defer cancel()
		s.fast.ShutdownWithContext(ctx) // a connection that is new would have 5 s
		if err := receive(t, s.served); err != nil {
			t.Error("Serve: ", err)
		}
	})
	eventually(t, "all connections are gone", func() bool { return s.Stats().Live == 0 })
}

// settle waits for the end of connections that Shutdown would close by a wrapper
// of MaxConnsPerIP, as fasthttp does so without regard to their Reads: the race
// detector complains. All clients have closed their ends.
func (s *server) settle(t testing.TB) {
	t.Helper()
	if s.fast.MaxConnsPerIP > 0 {
		eventually(t, "no connection is open", func() bool { return s.fast.GetOpenConnectionsCount() <= 0 })
	}
}

// addsUp checks the counts when all connections are gone: each has one outcome,
// and those that timed out did so in a phase. A connection is counted for its
// phase when the server closes it, a little later.
func (s *server) addsUp(t testing.TB) {
	t.Helper()
	var st Stats
	var ended, phases, limits uint64
	end := time.Now().Add(patience)
	for {
		st, ended, phases, limits = s.Stats(), 0, 0, 0
		for _, n := range st.TimedOut {
			ended += n
		}
		for _, n := range st.Phases {
			phases += n
		}
		for _, n := range st.Limits {
			limits += n
		}
		if ended == phases && ended == limits && st.Tracked == st.Live+st.Gone+ended {
			return
		}
		if time.Now().After(end) {
			t.Errorf("the counts do not add up: %+v", st)
			return
		}
		time.Sleep(10 * ms)
	}
}

// wantPhases waits until n connections have been timed out in the given phase,
// and checks that none has in another.
func (s *server) wantPhases(t testing.TB, phase string, n uint64) {
	t.Helper()
	eventually(t, "timeouts of the "+phase, func() bool { return s.Stats().Phases[phase] == n })
	for p, n := range s.Stats().Phases {
		if n != 0 && p != phase {
			t.Errorf("%d timeouts of the %s", n, p)
		}
	}
}

func (s *server) wantPhase(t testing.TB, phase string) {
	t.Helper()
	s.wantPhases(t, phase, 1)
}

// wantReason checks that n connections were timed out, and for this reason.
func (s *server) wantReason(t testing.TB, reason idle.Reason, n uint64) {
	t.Helper()
	st := s.Stats()
	if got := st.TimedOut[reason]; got != n {
		t.Errorf("%d timed out for %v, want %d: %+v", got, reason, n, st)
	}
}

// noTimeout checks that no connection has been timed out.
func (s *server) noTimeout(t testing.TB) {
	t.Helper()
	if st := s.Stats(); len(st.TimedOut) > 0 {
		t.Errorf("timed out: %v %v", st.TimedOut, st.Phases)
	}
}

// A client is one connection, and what is read from it.
type client struct {
	net.Conn
	in   *bufio.Reader
	t    testing.TB
	mute bool      // the adapter cannot answer it
	sent time.Time // before the last send
}

// dial connects to s, by TLS if it wants that.
func (s *server) dial(t testing.TB) *client {
	t.Helper()
	nc := s.raw(t)
	if s.tls == nil {
		return on(t, nc)
	}
	c := on(t, tls.Client(nc, s.tls))
	c.mute = s.fast.MaxConnsPerIP > 0 // and TLS: fasthttp gives no way to it
	return c
}

func on(t testing.TB, nc net.Conn) *client {
	return &client{Conn: nc, in: bufio.NewReader(nc), t: t}
}

// raw connects to s and does not speak TLS.
func (s *server) raw(t testing.TB) net.Conn {
	t.Helper()
	ln := s.bare
	if ln == nil {
		ln = s.Listener
	}
	nc, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	nc.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() { nc.Close() })
	return nc
}

// send writes text.
func (c *client) send(text string) {
	c.t.Helper()
	c.sent = time.Now()
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Fatal(err)
	}
}

// trickle writes text byte by byte, until it has all gone or cannot.
func (c *client) trickle(text string, pause time.Duration) {
	for i := range len(text) {
		if _, err := io.WriteString(c, text[i:i+1]); err != nil {
			return
		}
		time.Sleep(pause)
	}
}

// response reads a response, which has to be one, and returns its body.
func (c *client) response(status int) string {
	c.t.Helper()
	res, err := http.ReadResponse(c.in, nil)
	if err != nil {
		c.t.Fatalf("no response but %v, want status %d", err, status)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatalf("response %d: %v after %q", res.StatusCode, err, body)
	}
	if res.StatusCode != status {
		c.t.Fatalf("got status %d and %q, want %d", res.StatusCode, body, status)
	}
	return string(body)
}

// refused reads the answer to a request that timed out: a response of the given
// status, by which the connection ends. Where none can be written it just ends.
func (c *client) refused(status int) time.Time {
	c.t.Helper()
	if c.mute {
		return c.closed()
	}
	res, err := http.ReadResponse(c.in, nil)
	at := time.Now()
	if err != nil {
		c.t.Fatalf("no response but %v, want status %d", err, status)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != status || !res.Close || res.ContentLength != int64(len(body)) {
		c.t.Errorf("got %v, close %v, length %d, %q, %v", res.Status, res.Close, res.ContentLength, body, err)
	}
	c.closed()
	return at
}

// closed checks that the connection ends, and not a byte comes before. It returns
// when.
func (c *client) closed() time.Time {
	c.t.Helper()
	rest, err := io.ReadAll(c.in)
	at := time.Now()
	if ne, ok := err.(net.Error); len(rest) > 0 || ok && ne.Timeout() {
		c.t.Errorf("got %q and %v, want the end", rest, err)
	}
	return at
}

// get makes a request, which has to succeed.
func (c *client) get(path string) string {
	c.t.Helper()
	c.send("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n")
	return c.response(200)
}

// post is the header of a request with a body of n bytes.
func post(n int) string {
	return fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", n)
}

func receive[T any](t testing.TB, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(patience):
		t.Fatalf("nothing received within %v", patience)
	}
	return v
}

// upTo waits until ok returns true, and reports whether that was within d.
func upTo(d time.Duration, ok func() bool) bool {
	for end := time.Now().Add(d); !ok(); time.Sleep(5 * ms) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// eventually waits until ok returns true.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	if !upTo(patience, ok) {
		t.Fatalf("not within %v: %s", patience, what)
	}
}

// notBefore checks that at is no earlier than limit after begun.
func notBefore(t testing.TB, at, begun time.Time, limit time.Duration) {
	t.Helper()
	if took := at.Sub(begun); took < limit {
		t.Errorf("after %v, before the limit of %v", took, limit)
	}
}

// tlsConfigs returns those of a server and of a client that trusts it.
func tlsConfigs(t testing.TB) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"test"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(crand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}},
		&tls.Config{RootCAs: roots, ServerName: "test"}
}
