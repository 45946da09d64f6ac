//go:build idletrace && proof

package traces

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/panjf2000/gnet/v2/pkg/logging"
	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/adapters/idlefasthttp"
	"github.com/idlewheel/idlewheel/adapters/idlegnet"
	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
	"github.com/idlewheel/idlewheel/idle/internal/control"
)

var traced = flag.Int("traced", 100_000, "how many steps TestTracesOfServers checks")

// TestTracesOfServers is TestTraces for servers with real sockets, and clients of which some are
// too slow, silent, or don't read. Meanwhile the trackers are controlled. Only the traces are checked.
func TestTracesOfServers(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	idle.TraceAll(t, *traced, 1, func() {
		seed++
		useServers(t, seed)
	})
}

// round is how long a server is used.
const round = 2 * time.Second

// A server is one that is running.
type server struct {
	at       net.Addr
	tls      *tls.Config // of its clients, if it has TLS
	trackers []*idle.Tracker
	shutDown func(context.Context, idle.Drain) error
}

// useServers runs a server of each kind, with clients, and controls the trackers as seed says. The
// servers are shut down before the clients leave.
func useServers(t *testing.T, seed uint64) {
	ctx, cancel := context.WithTimeout(t.Context(), round)
	defer cancel()
	var clients sync.WaitGroup
	var trackers []*idle.Tracker
	start := func(s *server) {
		trackers = append(trackers, s.trackers...)
		clients.Go(func() {
			time.Sleep(round * 3 / 4)
			if err := s.shutDown(context.Background(), idle.Drain{Duration: limit / 2, CloseDelay: limit / 10, ForceAfter: limit}); err != nil {
				t.Error(err)
			}
		})
	}
	for _, s := range []*server{
		serveLines(t, false), serveHTTP(t, false, "http/1.1"), serveFastHTTP(t, false), serveGnet(t),
		serveLines(t, true), serveHTTP(t, true, "http/1.1"), serveFastHTTP(t, true),
	} {
		start(s)
		for _, use := range []func(net.Conn){honest, honest, slow, silent, deaf, sip, upgrade} {
			clients.Go(func() { s.keepUsing(ctx, use) })
		}
	}
	for _, s := range []*server{serveHTTP(t, false, "h2"), serveHTTP(t, true, "h2")} {
		start(s)
		for _, body := range []string{"", "slow body", strings.Repeat("large", 20_000)} {
			clients.Go(func() { s.keepAsking(ctx, body) })
		}
	}
	stop := control.Start(seed, trackers...)
	clients.Wait()
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// keepUsing uses one connection after the other.
func (s *server) keepUsing(ctx context.Context, use func(net.Conn)) {
	for ; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) { // it may have been refused
		c, err := net.Dial(s.at.Network(), s.at.String())
		if err != nil {
			continue
		}
		stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Now()) })
		if s.tls != nil {
			use(tls.Client(c, s.tls))
		} else {
			use(c)
		}
		stop()
		c.Close()
	}
}

// keepAsking makes requests by HTTP/2, two at a time, whose body is sent slowly.
func (s *server) keepAsking(ctx context.Context, body string) {
	tr := &http.Transport{TLSClientConfig: s.tls, Protocols: new(http.Protocols)}
	tr.Protocols.SetHTTP2(s.tls != nil)
	tr.Protocols.SetUnencryptedHTTP2(s.tls == nil)
	defer tr.CloseIdleConnections()
	url := "http://" + s.at.String()
	if s.tls != nil {
		url = "https://" + s.at.String()
	}
	var two sync.WaitGroup
	for range 2 {
		two.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				ask(ctx, tr, url, body, n%4 == 3)
				time.Sleep(time.Duration(n%10) * 5 * time.Millisecond)
			}
		})
	}
	two.Wait()
}

// ask makes a request, and may not read the answer.
func ask(ctx context.Context, tr *http.Transport, url string, body string, deaf bool) {
	ctx, cancel := context.WithTimeout(ctx, 2*limit)
	defer cancel()
	r, w := io.Pipe()
	go func() {
		for part := range slices.Chunk([]byte(body), len(body)/8+1) {
			w.Write(part)
			time.Sleep(10 * time.Millisecond)
		}
		w.Close()
	}()
	defer r.Close()
	req, err := http.NewRequestWithContext(ctx, "POST", url, r)
	if err != nil {
		panic(err)
	}
	answer, err := tr.RoundTrip(req)
	if err != nil {
		return
	}
	defer answer.Body.Close()
	if deaf {
		<-ctx.Done()
	}
	io.Copy(io.Discard, answer.Body)
}

func listen(t *testing.T) net.Listener {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// certificate is the one of httptest, for servers, and for clients not to look at.
func certificate(protocols ...string) (ours, theirs *tls.Config) {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	return &tls.Config{Certificates: s.TLS.Certificates, NextProtos: protocols}, &tls.Config{InsecureSkipVerify: true, NextProtos: protocols}
}

const limit = 200 * time.Millisecond

// pages are the limits of the servers of HTTP.
var pages = httplimits.Timeouts{
	HeaderTimeout: limit, BodyTimeout: limit, WriteTimeout: limit, KeepAliveTimeout: limit, HandlerTimeout: 5 * limit,
	StreamTimeout: limit,
	BodyRate:      idle.Rate{BytesPerSecond: 1000, Grace: limit},
	Hijacked:      idle.Policy{IdleTimeout: limit},
}

// login and lines are the policies of serveLines and serveGnet, before and after the first line.
var (
	login = idle.Policy{Name: "login", PhaseTimeout: limit}
	lines = idle.Policy{
		Name: "lines", ExplicitUse: true, IdleTimeout: 2 * limit, WriteTimeout: limit,
		MinReadRate: idle.Rate{BytesPerSecond: 1000, Grace: limit}, MinWriteRate: idle.Rate{BytesPerSecond: 1e6, Grace: limit},
		Heartbeat: idle.Heartbeat{Interval: limit / 2, Timeout: limit / 2, Misses: 3},
	}
)

// A proxied listener has connections whose addresses aren't known at first, as with the PROXY protocol.
type proxied struct{ net.Listener }

type proxiedConn struct{ net.Conn }

func (l proxied) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return proxiedConn{c}, err
}

func (c proxiedConn) RemoteAddr() net.Addr {
	time.Sleep(rand.N(100 * time.Microsecond))
	return c.Conn.RemoteAddr()
}

// serveLines answers each line with itself. It reads with deadlines that are shorter than its limits.
func serveLines(t *testing.T, secure bool) *server {
	ln := listen(t)
	if secure {
		ln = proxied{ln}
	}
	l, err := idlenet.Wrap(ln, login, &idlenet.Options{
		Ping:      func(c *idlenet.Conn) error { _, err := io.WriteString(c, "ping\n"); return err },
		OnTimeout: func(_ *idlenet.Conn, err *idle.TimeoutError) bool { return err.Elapsed < 3*limit },
	})
	if err != nil {
		t.Fatal(err)
	}
	served, err := l.Phase(lines)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{at: l.Addr(), trackers: []*idle.Tracker{l.Tracker()}}
	s.shutDown = func(_ context.Context, d idle.Drain) error {
		l.Close()
		op, err := l.Tracker().Drain(d)
		if err != nil { // it is closed
			return nil
		}
		<-op.Done()
		return nil
	}
	var ours *tls.Config
	if secure {
		ours, s.tls = certificate()
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serveConn(c.(*idlenet.Conn), served, ours)
		}
	}()
	return s
}

func serveConn(c *idlenet.Conn, served *idle.Phase, secure *tls.Config) {
	defer c.Close()
	nc := net.Conn(c)
	if secure != nil {
		nc = tls.Server(c, secure)
	}
	b := make([]byte, 4096)
	for {
		c.SetReadDeadline(time.Now().Add(limit / 8))
		n, err := nc.Read(b)
		var timeout *idle.TimeoutError
		if err != nil && (errors.As(err, &timeout) || !errors.Is(err, os.ErrDeadlineExceeded) || secure != nil) {
			return
		}
		if n > 0 {
			c.Enter(served)
			nc.Write(b[:n])
		}
	}
}

// serveRequest answers with a page, or with more than the window of a client that sent much. It
// takes connections over whose requests have no body.
func serveRequest(w http.ResponseWriter, r *http.Request) {
	n, _ := io.Copy(io.Discard, r.Body)
	pages := 1
	if n >= 100_000 {
		pages = 1000
	}
	if r.ProtoMajor == 1 && r.ContentLength == 0 {
		serveHijacked(w, r)
		return
	}
	for range pages {
		if _, err := io.WriteString(w, page); err != nil {
			return
		}
	}
}

// serveHijacked takes a connection over and pings it, as one does with a WebSocket.
func serveHijacked(w http.ResponseWriter, r *http.Request) {
	c, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	err = idlehttp.Watch(r, lines, idlehttp.Callbacks{Ping: func() error {
		_, err := io.WriteString(c, "ping\n")
		return err
	}})
	if err == nil {
		io.Copy(c, rw)
	}
}

// serveHTTP serves HTTP/1 or HTTP/2.
func serveHTTP(t *testing.T, secure bool, protocol string) *server {
	hs := &http.Server{Handler: http.HandlerFunc(serveRequest), Protocols: new(http.Protocols), ErrorLog: log.New(io.Discard, "", 0)}
	hs.Protocols.SetHTTP1(protocol != "h2")
	hs.Protocols.SetHTTP2(protocol == "h2")
	hs.Protocols.SetUnencryptedHTTP2(protocol == "h2")
	s := &server{}
	ln := listen(t)
	if secure {
		hs.TLSConfig, s.tls = certificate(protocol)
	}
	l, err := idlehttp.Wrap(hs, ln, pages)
	if err != nil {
		t.Fatal(err)
	}
	s.at, s.trackers = l.Addr(), []*idle.Tracker{l.Tracker()}
	s.shutDown = func(ctx context.Context, d idle.Drain) error { return idlehttp.Shutdown(ctx, d, l) }
	if secure {
		go hs.ServeTLS(l, "", "")
	} else {
		go hs.Serve(l)
	}
	return s
}

func serveFastHTTP(t *testing.T, secure bool) *server {
	fs := &fasthttp.Server{
		MaxIdleWorkerDuration: limit, Logger: log.New(io.Discard, "", 0), StreamRequestBody: true,
		Handler: func(ctx *fasthttp.RequestCtx) { ctx.Request.Body(); ctx.WriteString(page) },
	}
	limits := pages
	limits.StreamTimeout = 0 // there is no HTTP/2
	s := &server{}
	ln := listen(t)
	if secure {
		fs.TLSConfig, s.tls = certificate()
		ln = tls.NewListener(ln, fs.TLSConfig)
	}
	l, err := idlefasthttp.Wrap(fs, ln, limits)
	if err != nil {
		t.Fatal(err)
	}
	s.at, s.trackers = l.Addr(), []*idle.Tracker{l.Tracker()}
	s.shutDown = func(ctx context.Context, d idle.Drain) error { return idlefasthttp.Shutdown(ctx, d, l) }
	go fs.Serve(l)
	return s
}

// noInfo is a logger without messages about the start.
type noInfo struct{ logging.Logger }

func (noInfo) Infof(string, ...any) {}

// A gnetServer answers everything with itself.
type gnetServer struct {
	gnet.BuiltinEventEngine
	booted chan struct{}
	conn   func(gnet.Conn) *idlegnet.Conn
	served *idle.Phase
}

func (s *gnetServer) OnBoot(gnet.Engine) gnet.Action {
	close(s.booted)
	return gnet.None
}

func (s *gnetServer) OnTraffic(c gnet.Conn) gnet.Action {
	s.conn(c).Enter(s.served)
	sent, _ := c.Next(-1)
	c.Write(sent)
	return gnet.None
}

func serveGnet(t *testing.T) *server {
	gs := &gnetServer{booted: make(chan struct{})}
	h, err := idlegnet.Wrap(gs, login, &idlegnet.Options{
		Ping: func(c gnet.Conn) error { _, err := io.WriteString(c, "ping\n"); return err },
	})
	if err != nil {
		t.Fatal(err)
	}
	gs.conn = h.Conn
	at := &net.UnixAddr{Net: "unix", Name: filepath.Join(t.TempDir(), "socket")}
	go gnet.Run(h, "unix://"+at.String(), gnet.WithNumEventLoop(2), gnet.WithLogger(noInfo{logging.GetDefaultLogger()}))
	<-gs.booted
	if gs.served, err = h.Phase(lines); err != nil {
		t.Fatal(err)
	}
	return &server{at: at, trackers: []*idle.Tracker{h.Tracker()}, shutDown: h.Shutdown}
}

// A request is a line for serveLines, too.
const request = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello"

var page = strings.Repeat("a page ", 1000)

// upgrade asks for a hijacked connection, which echoes and pings.
func upgrade(c net.Conn) {
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	honest(c)
}

// honest makes requests one after the other.
func honest(c net.Conn) {
	answer := make([]byte, 1<<16)
	for range 200 {
		io.WriteString(c, request)
		if _, err := c.Read(answer); err != nil {
			return
		}
	}
}

// slow sends each byte on its own.
func slow(c net.Conn) {
	for i := range len(request) {
		if _, err := io.WriteString(c, request[i:i+1]); err != nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// silent sends half of a request.
func silent(c net.Conn) {
	io.WriteString(c, request[:len(request)/2])
	io.Copy(io.Discard, c)
}

// sip makes requests, and reads the answers slowly.
func sip(c net.Conn) {
	go deaf(c)
	for answer := make([]byte, 1<<16); ; time.Sleep(limit / 4) {
		if _, err := c.Read(answer); err != nil {
			return
		}
	}
}

// deaf makes requests and reads no answer.
func deaf(c net.Conn) {
	for {
		if _, err := io.WriteString(c, request); err != nil {
			return
		}
	}
}
