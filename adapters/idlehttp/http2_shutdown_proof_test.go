//go:build proof

package idlehttp

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/adapters/internal/kernel"
	"github.com/idlewheel/idlewheel/idle"
)

// start2 starts a server that speaks HTTP/2, by TLS or not.
func start2(t testing.TB, secure bool, limits Timeouts, h http.HandlerFunc, prepare ...func(*http.Server)) *site {
	t.Helper()
	return start(t, secure, limits, h, append(prepare, func(server *http.Server) { speak2(server, secure) })...)
}

// TestHTTP2SlowLink has a client that is still reading a response when its connection falls idle
// for the server. A KeepAliveTimeout or a drain mustn't cut that response. The client sends
// WINDOW_UPDATE frames meanwhile, to which the kernel of a closed connection answers with a reset.
func TestHTTP2SlowLink(t *testing.T) {
	for name, limits := range map[string]Timeouts{"KeepAliveTimeout": {KeepAliveTimeout: 500 * time.Millisecond}, "drain": {}} {
		t.Run(name, func(t *testing.T) {
			httpsuite.Both(t, func(t *testing.T, secure bool) {
				if !kernel.SeesOutput {
					t.Skip("the kernel does not tell")
				}
				answered := make(chan bool, 1)
				s := start2(t, secure, limits, func(w http.ResponseWriter, _ *http.Request) {
					defer func() { answered <- true }()
					w.Write(make([]byte, 1<<20))
				})
				tr := s.transport(true)
				tr.DialContext = func(ctx context.Context, _, address string) (net.Conn, error) {
					nc, err := new(net.Dialer).DialContext(ctx, "tcp", address)
					if err == nil {
						nc.(*net.TCPConn).SetReadBuffer(32 << 10)
					}
					return slowLink{nc}, err
				}
				if name == "drain" {
					go func() {
						<-answered
						s.Setup.Drain(context.Background(), idle.Drain{CloseDelay: 200 * time.Millisecond, ForceAfter: 2 * time.Minute})
					}()
				}
				if n := len(s.do(tr, nil)); n != 1<<20 {
					t.Errorf("got %d bytes", n)
				}
			})
		})
	}
}

// A slowLink lets through some 500 kB/s.
type slowLink struct{ net.Conn }

func (c slowLink) Read(b []byte) (int, error) {
	time.Sleep(15 * time.Millisecond)
	return c.Conn.Read(b[:min(len(b), 8<<10)])
}

// A client that takes nothing any more, though it has opened its windows, is cut by the
// write timeout, long before StreamTimeout.
func TestHTTP2DeadClient(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		limits := httpsuite.Only(400*ms, "WriteTimeout")
		ended := make(chan error, 1)
		s := start2(t, secure, limits, func(w http.ResponseWriter, r *http.Request) {
			_, err := w.Write(bytes.Repeat(httpsuite.Large, 2))
			ended <- err
		})
		f := s.dialFramed(1 << 30)
		f.Narrow(16 << 10)
		f.update(0, 1<<30)
		begun := f.open(1, getBlock, endStream)
		if err := httpsuite.Receive(t, ended); err == nil {
			t.Error("all has been written")
		}
		httpsuite.NotBefore(t, time.Now(), begun, limits.WriteTimeout)
		s.WantOnly(1, "streams", idle.ReasonWrite)
	})
}
