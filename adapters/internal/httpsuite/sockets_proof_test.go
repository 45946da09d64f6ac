//go:build proof

package httpsuite

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/idle"
)

// TestOnSockets runs the promises that depend on what the kernel tells about a socket, and those for which time in memory would
// stand still.
func TestOnSockets(t *testing.T) {
	for _, s := range []server{netHTTP, fastHTTP} {
		for _, p := range slices.Concat(ofSlowClients(), ofFarewells()) {
			if !strings.HasPrefix(p.name, "Reader") && !strings.HasPrefix(p.name, "FarewellFails") {
				continue
			}
			for _, f := range s.flavours[:2] {
				t.Run(s.pkg+"/"+p.name+"/"+f.name, func(t *testing.T) {
					t.Parallel()
					p.test(t, under{s, f, func() net.Listener { return Listen(t) }})
				})
			}
		}
	}
}

// TestRollingRestart replaces a server several times. Clients see no failure, not even of requests that they
// can't repeat.
func TestRollingRestart(t *testing.T) {
	for _, s := range []server{netHTTP, fastHTTP} {
		for _, f := range s.flavours[:2] {
			for _, protocol := range []string{"HTTP/1", "HTTP/2"} {
				if protocol == "HTTP/1" || f.secure && s.speaksHTTP2 {
					t.Run(s.pkg+"/"+f.name+"/"+protocol, func(t *testing.T) {
						t.Parallel()
						restart(t, under{s, f, func() net.Listener { return Listen(t) }}, protocol)
					})
				}
			}
		}
	}
}

// A way sends new connections to a server, as a load balancer does.
type way struct {
	mu    sync.RWMutex // held for reading while dialing
	to    *Site
	dials atomic.Uint64 // successful ones
	net.Dialer
}

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
	mute := func(c *config) { c.log = io.Discard } // the Transport may drop connections during their handshake, which the server logs
	way := &way{to: u.start(t, All(Patience), echo, mute)}
	tr := transport(protocol, u.secure, way.dial)
	defer tr.CloseIdleConnections()
	client, url := http.Client{Transport: tr, Timeout: Patience}, map[bool]string{false: "http://example.com/", true: "https://example.com/"}[u.secure]
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
			NoError(t, old.Setup.LameDuck(context.Background(), 200*ms))
		}
		NoError(t, Receive(t, old.drain(idle.Drain{Duration: 200 * ms})))
	}
	stop.Store(true)
	load.Wait()
	Eventually(t, "the connections that are still being made are idle, and closed", func() bool {
		tr.CloseIdleConnections()
		return way.to.Stats().Live == 0
	})
}
