//go:build proof

package idlehttp

import (
	"io"
	"net"
	"net/http"
	"runtime"
	"testing"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

// TestToldHijackedForgotten has a request told to finish by a Drain, hijack its connection, and
// forget it. The garbage collector closes that, as behind a bare server.
func TestToldHijackedForgotten(t *testing.T) {
	for name, drain := range map[string]bool{"without Drain": false, "with Drain": true} {
		t.Run(name, func(t *testing.T) {
			inHandler, goOn := make(chan bool), make(chan bool)
			s := httpsuite.Start(t, false, func(log io.Writer, idle func()) (httpsuite.Setup, error) {
				ln, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					return httpsuite.Setup{}, err
				}
				h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					inHandler <- true
					<-goOn
					if _, _, err := http.NewResponseController(w).Hijack(); err != nil {
						t.Error(err)
					}
				})
				return setup(&http.Server{Handler: h}, httpsuite.Config{Listener: ln, Log: log, Idle: idle}, false, func(*http.Server) {})
			})
			c := s.Dial()
			c.Send(httpsuite.Get("/"))
			<-inHandler
			if drain {
				if _, err := s.Listener.(*Listener).Tracker().Drain(idle.Drain{}); err != nil {
					t.Fatal(err)
				}
				httpsuite.Eventually(t, "it is told", func() bool { return s.Setup.Told() == 1 })
			}
			goOn <- true
			closed := make(chan error, 1)
			go func() {
				_, err := c.In.ReadByte()
				closed <- err
			}()
			httpsuite.Eventually(t, "it is closed", func() bool {
				runtime.GC()
				return len(closed) > 0
			})
			if err := <-closed; err != io.EOF {
				t.Error(err)
			}
		})
	}
}
