// Package gated shows that a gate of package admit works with each adapter, and above
// github.com/pires/go-proxyproto: it refuses what it has to, and has each place back when the
// connection ends, whatever ends it.
package gated

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pires/go-proxyproto"
	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/admit"
	"github.com/idlewheel/idlewheel/adapters/idlefasthttp"
	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/adapters/idletest"
	"github.com/idlewheel/idlewheel/idle"
)

// TestMain lets fasthttp start a goroutine that never ends, which can't be in virtual time.
func TestMain(m *testing.M) {
	new(fasthttp.Response).Write(bufio.NewWriter(io.Discard))
	m.Run()
}

const (
	limit  = time.Hour // of idle connections, hijacked ones, and those that send no request
	perKey = 2
)

// A server answers requests on the connections of a listener.
type server struct {
	tracker  *idle.Tracker
	shutdown func(context.Context, idle.Drain) error
}

// servers start a server on a listener that gets a gate.
var servers = map[string]func(testing.TB, *admit.Gate, net.Listener) server{
	"idlenet": func(t testing.TB, gate *admit.Gate, ln net.Listener) server {
		l, err := idlenet.Wrap(gate.Listener(ln), idle.Policy{IdleTimeout: limit}, nil)
		must(t, err)
		return serveConns(l, l)
	},
	"idlenet below the gate": func(t testing.TB, gate *admit.Gate, ln net.Listener) server {
		l, err := idlenet.Wrap(ln, idle.Policy{IdleTimeout: limit}, nil)
		must(t, err)
		return serveConns(l, gate.Listener(l))
	},
	"idlehttp": func(t testing.TB, gate *admit.Gate, ln net.Listener) server {
		s := &http.Server{Handler: http.HandlerFunc(answerHTTP)}
		l, err := idlehttp.Wrap(s, gate.Listener(ln), idlehttp.Timeouts{HandshakeTimeout: limit, KeepAliveTimeout: limit})
		must(t, err)
		go s.Serve(l)
		return server{l.Tracker(), func(ctx context.Context, d idle.Drain) error { return idlehttp.Shutdown(ctx, d, l) }}
	},
	"idlefasthttp": func(t testing.TB, gate *admit.Gate, ln net.Listener) server {
		s := &fasthttp.Server{Handler: answerFastHTTP, Logger: log.New(io.Discard, "", 0)}
		l, err := idlefasthttp.Wrap(s, gate.Listener(ln), idlefasthttp.Timeouts{HandshakeTimeout: limit, KeepAliveTimeout: limit})
		must(t, err)
		go s.Serve(l)
		return server{l.Tracker(), func(ctx context.Context, d idle.Drain) error { return idlefasthttp.Shutdown(ctx, d, l) }}
	},
}

const answer = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"

// serveConns answers on the connections of ln, which is l or above it.
func serveConns(l *idlenet.Listener, ln net.Listener) server {
	go http.Serve(ln, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "x") }))
	return server{l.Tracker(), func(ctx context.Context, d idle.Drain) error {
		drain, err := l.Tracker().Drain(d)
		if err != nil {
			return err
		}
		ln.Close()
		<-drain.Done()
		return nil
	}}
}

func answerHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/hijack" {
		io.WriteString(w, "x")
		return
	}
	nc, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	defer nc.Close()
	if err := idlehttp.Watch(r, idle.Policy{IdleTimeout: limit}, idlehttp.Callbacks{}); err != nil {
		panic(err)
	}
	io.WriteString(nc, answer)
	io.Copy(io.Discard, nc)
}

func answerFastHTTP(c *fasthttp.RequestCtx) {
	c.WriteString("x")
	if string(c.Path()) != "/hijack" {
		return
	}
	c.Hijack(func(nc net.Conn) {
		if err := idlefasthttp.Watch(nc, idle.Policy{IdleTimeout: limit}, idlefasthttp.Callbacks{}); err != nil {
			panic(err)
		}
		io.Copy(io.Discard, nc)
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A site is a server with a gate, and what its clients need.
type site struct {
	t    testing.TB
	gate *admit.Gate
	server
	dial   func() (net.Conn, error)
	header string // of the PROXY protocol
	settle func() // waits until the server waits for the next request, so no connection is busy
}

// newGate returns a gate. Pipes have no address, so all of them have the same key.
func newGate(t testing.TB) *admit.Gate {
	gate, err := admit.New(admit.Limits{PerKey: perKey, Key: func(a net.Addr) string {
		return cmp.Or(admit.ByAddress(a), a.Network())
	}})
	must(t, err)
	return gate
}

// inVirtualTime runs a test with each server on pipes, in virtual time. below makes the listener below the gate.
func inVirtualTime(t *testing.T, header string, below func(net.Listener) net.Listener, test func(*site)) {
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pipes, gate := idletest.NewListener(), newGate(t)
				test(&site{t, gate, start(t, gate, below(pipes)), pipes.Dial, header, synctest.Wait})
				pipes.Close()
				time.Sleep(time.Minute) // what fasthttp keeps ends by itself
			})
		})
	}
}

// A client is the client's end of a connection.
type client struct {
	net.Conn
	r *bufio.Reader
}

func (s *site) connect() *client {
	s.t.Helper()
	nc, err := s.dial()
	must(s.t, err)
	s.t.Cleanup(func() { nc.Close() })
	return &client{nc, bufio.NewReader(nc)}
}

// get sends a request, after a prefix, and reports whether it's answered.
func (c *client) get(prefix, path string) bool {
	if _, err := fmt.Fprintf(c, "%sGET %s HTTP/1.1\r\nHost: a\r\n\r\n", prefix, path); err != nil {
		return false
	}
	response, err := http.ReadResponse(c.r, nil)
	if err != nil || response.StatusCode != http.StatusOK {
		return false
	}
	body, err := io.ReadAll(response.Body)
	return err == nil && string(body) == "x"
}

// enter returns a client whose first request is answered.
func (s *site) enter(path string) *client {
	s.t.Helper()
	c := s.connect()
	if !c.get(s.header, path) {
		s.t.Fatalf("a client isn't answered; the gate has counted %+v", s.gate.Stats())
	}
	s.settle()
	return c
}

// refused connects a client that finds no place.
func (s *site) refused() {
	s.t.Helper()
	before := s.gate.Stats()
	if s.connect().get(s.header, "/") {
		s.t.Error("a client beyond PerKey is answered")
	}
	if now := s.gate.Stats(); now.Open != before.Open || now.PerKey != before.PerKey+1 {
		s.t.Errorf("the counts were %+v, and are %+v after a client that was refused", before, now)
	}
}

// isOver waits until the server has closed c.
func (s *site) isOver(c *client) {
	s.t.Helper()
	if b, err := c.r.ReadByte(); !errors.Is(err, io.EOF) {
		s.t.Errorf("instead of an end came %q, %v", b, err)
	}
}

func (s *site) wantOpen(want int) {
	s.t.Helper()
	if n := s.gate.Stats().Open; n != want {
		s.t.Errorf("%d places are taken, want %d", n, want)
	}
}

// places takes and frees places in all the ways that a tracker knows.
func (s *site) places() {
	first, second := s.enter("/"), s.enter("/")
	s.refused()
	time.Sleep(limit / 2)
	if !second.get("", "/") {
		s.t.Error("a client that has a place isn't answered")
	}
	time.Sleep(limit/2 + time.Second)
	s.isOver(first) // timed out
	s.wantOpen(1)

	hijacked := s.enter("/hijack")
	s.refused()
	time.Sleep(limit + time.Second)
	s.isOver(second)
	s.isOver(hijacked)
	s.wantOpen(0)

	hijacked = s.enter("/hijack")
	hijacked.Close()
	synctest.Wait()
	s.wantOpen(0)

	must(s.t, s.tracker.SetCapacity(idle.Capacity{MaxConns: 1}))
	evicted, newcomer := s.enter("/"), s.enter("/")
	s.isOver(evicted)
	s.wantOpen(1)
	s.enter("/hijack")
	s.isOver(newcomer)
	must(s.t, s.tracker.SetCapacity(idle.Capacity{}))
	s.enter("/")
	s.refused()

	must(s.t, s.shutdown(s.t.Context(), idle.Drain{Duration: time.Second, ForceAfter: time.Minute}))
	synctest.Wait()
	s.wantOpen(0)
}

func TestPlaces(t *testing.T) {
	inVirtualTime(t, "", func(ln net.Listener) net.Listener { return ln }, (*site).places)
}

const header = "PROXY TCP4 192.0.2.1 127.0.0.1 1234 80\r\n"

func proxied(headerTimeout time.Duration) func(net.Listener) net.Listener {
	return func(ln net.Listener) net.Listener {
		return &proxyproto.Listener{Listener: ln, ReadHeaderTimeout: headerTimeout}
	}
}

func TestPlacesBehindProxy(t *testing.T) { inVirtualTime(t, header, proxied(limit/2), (*site).places) }

// Clients whose header never comes take places without a key. Nobody waits for them, and each of them has
// the server's limit, also if the library has none.
func TestHeaderNeverComes(t *testing.T) {
	for _, own := range []time.Duration{limit / 2, -1} {
		t.Run(fmt.Sprint("ReadHeaderTimeout ", own), func(t *testing.T) {
			inVirtualTime(t, header, proxied(own), func(s *site) {
				const crowd = 50
				var silent []*client
				connect := func() {
					silent = nil
					for i := range crowd {
						c := s.connect()
						if silent = append(silent, c); i%2 == 0 {
							io.WriteString(c, header[:3]) // go-proxyproto refuses a longer part
						}
					}
				}
				begun := time.Now()
				connect()
				first := s.enter("/")
				s.enter("/")
				s.refused()
				s.wantOpen(crowd + perKey)
				if waited := time.Since(begun); waited > 0 {
					s.t.Errorf("the clients that send a header waited %v for those that don't", waited)
				}
				for _, c := range append(silent, first) {
					io.Copy(io.Discard, c.r) // a 408, if the library gives up and hands on what has come
				}
				if waited := time.Since(begun); waited > limit+max(own, 0)+time.Second {
					s.t.Errorf("the last one is ended after %v", waited)
				}
				synctest.Wait()
				s.wantOpen(0)

				connect()
				s.enter("/")
				begun = time.Now()
				must(s.t, s.shutdown(s.t.Context(), idle.Drain{Duration: time.Second, ForceAfter: 5 * time.Second}))
				if waited := time.Since(begun); waited > 6*time.Second {
					s.t.Errorf("Shutdown waited %v", waited)
				}
				synctest.Wait()
				s.wantOpen(0)
			})
		})
	}
}

// MaxConnsPerIP of fasthttp asks for the address before the next Accept, so a client whose header doesn't come
// holds up all others. PerKey doesn't.
func TestTrapMaxConnsPerIPWaitsForTheHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipes := idletest.NewListener()
		go (&fasthttp.Server{Handler: answerFastHTTP, MaxConnsPerIP: 100}).Serve(proxied(limit)(pipes))
		s := &site{t: t, gate: newGate(t), dial: pipes.Dial, header: header, settle: synctest.Wait}
		s.connect()
		begun := time.Now()
		s.enter("/").Close()
		if waited := time.Since(begun); waited != limit {
			t.Errorf("the next client has waited %v; have fasthttp and docs/operations.md changed?", waited)
		}
		pipes.Close()
		time.Sleep(time.Minute)
	})
}
