package idlehttp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
)

// A server that shuts down says so, and its streams end in good order. A client that says
// hello meanwhile is served or sent away, and does not hold up the shutdown.
func TestHTTP2Shutdown(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		begun, finish := make(chan bool, 1), make(chan bool)
		s := start2(t, secure, all(patience), func(w http.ResponseWriter, r *http.Request) {
			begun <- true
			<-finish
			io.WriteString(w, "done")
		})
		f, late := s.dial2(), s.Dial("h2")
		f.open(1, getBlock, endStream)
		httpsuite.Receive(t, begun)
		down := make(chan error, 1)
		go func() { down <- s.server.Shutdown(context.Background()) }()
		f.wantGoAway()
		late.Send(hello)
		late.Close()
		f.open(3, getBlock, endStream) // it is ignored
		finish <- true
		f.wantEnd(1)
		f.Drain()
		if err := httpsuite.Receive(t, down); err != nil {
			t.Error(err)
		}
		s.wantReset(0)
	})
}

// A server without keep-alives ends a connection after the requests in flight.
func TestHTTP2KeepAlivesDisabled(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		s := start2(t, secure, all(patience), echo)
		f := s.dial2()
		f.get(1)
		f.Send(ping)
		f.wantFrame("an answer", func(g got) bool { return g.kind == typePing })
		s.server.SetKeepAlivesEnabled(false)
		f.get(3)
		f.wantGoAway()
		f.Drain()
		s.server.SetKeepAlivesEnabled(true)
		f = s.dial2()
		f.get(1)
		f.get(3)
		s.WantNone()
	})
}

// A server that is closed ends its connections and streams.
func TestHTTP2Close(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		begun, ended := make(chan bool, 1), make(chan error, 1)
		s := start2(t, secure, all(patience), func(w http.ResponseWriter, r *http.Request) {
			begun <- true
			<-r.Context().Done()
			ended <- r.Context().Err()
		})
		f := s.dial2()
		f.open(1, getBlock, endStream)
		httpsuite.Receive(t, begun)
		s.server.Close()
		f.Drain()
		if err := httpsuite.Receive(t, ended); !errors.Is(err, context.Canceled) {
			t.Errorf("the request's context: %v", err)
		}
	})
}
