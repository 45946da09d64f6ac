package httpsuite

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/idle"
)

// ofLeaving are about replacing one server with another.
var ofLeaving = []promise{
	// A lame duck serves old and new connections, and asks their clients to close.
	{"LameDuck", usual, func(t *testing.T, u under) {
		s := u.start(t, All(Patience), echo)
		old, unused := s.Dial(), s.Dial()
		old.Get("/")
		unused.Get("/")
		if s.Setup.IsDraining() {
			t.Error("it leaves before it is told to")
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- s.Setup.LameDuck(ctx, time.Hour) }()
		Eventually(t, "it says that it leaves", s.Setup.IsDraining)
		for _, c := range []*Client{old, s.Dial()} {
			c.Send(Post(2) + "ab")
			r := c.Response()
			if b, err := io.ReadAll(r.Body); string(b) != "ab" || err != nil || !r.Close {
				t.Errorf("%q, %v, asks to close: %v", b, err, r.Close)
			}
			c.WantClosed()
		}
		if st := s.Stats(); st.Live == 0 {
			t.Error("a connection that is not used was closed")
		}
		cancel()
		if err := Receive(t, ended); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		WantError(t, s.Setup.LameDuck(context.Background(), 0), u.Package+": LameDuck of 0s")
		unused.Close()
	}},

	// During a Drain of the tracker IsDraining is true. When that is cancelled, the server stays.
	{"IsDrainingDuringDrain", usual, func(t *testing.T, u under) {
		s := u.start(t, All(Patience), echo)
		c := s.Dial()
		c.Get("/")
		drain, err := s.Tracker().Drain(idle.Drain{CloseDelay: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if !s.Setup.IsDraining() {
			t.Error("a Drain does not count as one")
		}
		Eventually(t, "the client is to be told", func() bool { return s.Setup.Told() == 1 })
		drain.Cancel()
		if s.Setup.IsDraining() {
			t.Error("a Drain that was cancelled counts as one")
		}
	}},

	// In HTTP/2, a client that uses its connection gets a GOAWAY, and opens another one.
	{"LameDuckOfHTTP2", secure, func(t *testing.T, u under) {
		if !u.SpeaksHTTP2 {
			t.Skip("the server does not speak HTTP/2")
		}
		s := u.start(t, All(Patience), echo)
		_, config := Identity()
		tr := &http.Transport{TLSClientConfig: withProtocol(config, "HTTP/2"), Protocols: new(http.Protocols)}
		tr.Protocols.SetHTTP2(true)
		defer tr.CloseIdleConnections()
		get := func() {
			r, err := tr.RoundTrip(httptest.NewRequest("GET", "https://"+s.Addr().String()+"/", nil))
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, r.Body)
			r.Body.Close()
		}
		get()
		get()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go s.Setup.LameDuck(ctx, time.Hour)
		Eventually(t, "it says that it leaves", s.Setup.IsDraining)
		Eventually(t, "the client opens another connection", func() bool { get(); return s.Stats().Tracked > 1 })
	}},

	// A server is replaced several times. Clients see no failure, not even of requests that they
	// can't repeat.
	{"RollingRestart", usual, func(t *testing.T, u under) {
		for _, protocol := range protocolsOf(u) {
			t.Run(protocol, func(t *testing.T) {
				t.Parallel()
				restart(t, u, protocol)
			})
		}
	}},
}

// A way sends new connections to a server, as a load balancer does.
type way struct {
	mu    sync.RWMutex // held for reading while dialing
	to    *Site
	dials atomic.Uint64 // successful ones
	net.Dialer
}

func newWay(to *Site) *way { return &way{to: to} }

// dial connects to the server, whatever the address.
func (w *way) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	nc, err := w.DialContext(ctx, "tcp", w.to.Addr().String())
	if err == nil {
		w.dials.Add(1)
	}
	return nc, err
}

// lead sends connections to another server from now on, and returns the previous one. Before
// that it waits until the previous server has accepted all its connections, because the kernel
// resets those in the backlog of a listener that is closed.
func (w *way) lead(to *Site) (old *Site) {
	w.mu.Lock()
	defer w.mu.Unlock()
	old, w.to = w.to, to
	Eventually(old.T, "all connections are accepted", func() bool { return old.Stats().Tracked >= w.dials.Load() })
	w.dials.Store(0)
	return old
}

// restart replaces one server with another while clients use them.
func restart(t *testing.T, u under, protocol string) {
	mute := func(c *Config) { c.Log = io.Discard } // the Transport may drop connections during their handshake, which the server logs
	way := newWay(u.start(t, All(Patience), echo, mute))
	tr := &http.Transport{MaxIdleConnsPerHost: 20, Protocols: new(http.Protocols), DialContext: way.dial}
	defer tr.CloseIdleConnections()
	tr.Protocols.SetHTTP1(protocol == "HTTP/1")
	tr.Protocols.SetHTTP2(protocol == "HTTP/2")
	url := "http://example.com/"
	if u.Secure {
		var config *tls.Config
		_, config = Identity()
		tr.TLSClientConfig = withProtocol(config, protocol)
		url = "https://example.com/"
	}
	client := http.Client{Transport: tr, Timeout: Patience}
	inTime := intime.Of(t, time.Second) // Shutdown gives clients 2 s to learn of it from a response
	var stop atomic.Bool
	var served atomic.Int64
	var load sync.WaitGroup
	for i := range 10 {
		load.Go(func() {
			for n := 0; !stop.Load(); n++ {
				text := fmt.Sprint(i, " ", n)
				// A client repeats a POST only if it knows that it wasn't executed: if none of
				// it has been written, or, in HTTP/2, if a GOAWAY says so.
				r, err := client.Post(url, "text/plain", strings.NewReader(text))
				if err != nil {
					inTime.Error(err)
					return
				}
				if b, err := io.ReadAll(r.Body); string(b) != text || err != nil {
					inTime.Errorf("%q, %v, want %q", b, err, text)
				}
				r.Body.Close()
				served.Add(1)
				time.Sleep(time.Duration(i*n%7) * 5 * ms)
			}
		})
	}
	for i := range 4 {
		before := served.Load()
		Eventually(t, "the server has the load", func() bool { return served.Load() > before+100 })
		old := way.lead(u.start(t, All(Patience), echo, mute))
		if i%2 == 0 {
			if err := old.Setup.LameDuck(context.Background(), 200*ms); err != nil {
				t.Error(err)
			}
		}
		if err := Receive(t, old.drain(idle.Drain{})); err != nil {
			t.Error(err)
		}
	}
	stop.Store(true)
	load.Wait()
	Eventually(t, "the connections that are still being made are idle, and closed", func() bool {
		tr.CloseIdleConnections()
		return way.to.Stats().Live == 0
	})
}
