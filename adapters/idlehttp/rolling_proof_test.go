//go:build proof

package idlehttp

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// TestRollingRestart replaces a server by another one some times, as a rollout does: new
// connections go to the new server, the old one tells its clients to leave, drains, and shuts
// down. Meanwhile clients make one request after the other, and none may fail.
func TestRollingRestart(t *testing.T) {
	for _, kind := range []string{"HTTP/1", "HTTP/1 over TLS", "HTTP/2 over TLS"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			secure, two := strings.HasSuffix(kind, "TLS"), strings.HasPrefix(kind, "HTTP/2")
			var address atomic.Value
			current := startRolling(t, secure, &address)
			const patience = 2 * time.Minute
			working, stop := context.WithCancel(t.Context())
			defer stop()
			var served, dials atomic.Int64
			var clients sync.WaitGroup
			for i := range 16 {
				clients.Go(func() {
					tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, Protocols: new(http.Protocols)}
					tr.Protocols.SetHTTP1(!two)
					tr.Protocols.SetHTTP2(two)
					tr.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
						dials.Add(1)
						return new(net.Dialer).DialContext(ctx, network, address.Load().(string))
					}
					defer tr.CloseIdleConnections()
					client := http.Client{Transport: tr, Timeout: patience}
					for n := 0; working.Err() == nil; n++ {
						if err := echoOnce(&client, map[bool]string{false: "http", true: "https"}[secure]+"://localhost/", fmt.Sprint(i, " ", n)); err != nil {
							t.Errorf("request %d of client %d: %v", n, i, err)
							return
						}
						served.Add(1)
						time.Sleep(rand.N(10 * time.Millisecond))
					}
				})
			}
			for range 5 {
				for before := served.Load(); served.Load() < before+200 && !t.Failed(); {
					time.Sleep(time.Millisecond)
				}
				next := startRolling(t, secure, &address)
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				if err := LameDuck(ctx, 100*time.Millisecond, current); err != nil {
					t.Error(err)
				}
				if err := Shutdown(ctx, idle.Drain{Duration: 200 * time.Millisecond, ForceAfter: patience}, current); err != nil {
					t.Error(err)
				}
				cancel()
				current = next
			}
			stop()
			clients.Wait()
			if dials.Load() < 2*16 {
				t.Errorf("%d requests over %d connections: nobody had to connect again", served.Load(), dials.Load())
			}
		})
	}
}

// startRolling starts a server that echoes bodies, to which new connections go from now on.
func startRolling(t *testing.T, secure bool, address *atomic.Value) *Listener {
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) })}
	ln, err := Wrap(s, bare, Timeouts{})
	if err != nil {
		t.Fatal(err)
	}
	if secure {
		certified := httptest.NewUnstartedServer(nil) // has a certificate
		certified.StartTLS()
		s.TLSConfig = certified.TLS.Clone()
		s.TLSConfig.NextProtos = []string{"h2", "http/1.1"}
		certified.Close()
		go s.ServeTLS(ln, "", "")
	} else {
		go s.Serve(ln)
	}
	t.Cleanup(func() { s.Close() })
	address.Store(bare.Addr().String())
	return ln
}

// echoOnce posts a text, and wants it back.
func echoOnce(client *http.Client, url, text string) error {
	resp, err := client.Post(url, "text/plain", strings.NewReader(text))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err != nil || string(b) != text {
		return fmt.Errorf("%q comes back, %v; want %q", b, err, text)
	}
	return nil
}
