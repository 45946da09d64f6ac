package idlehttp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
)

// A server that shuts down says so, and its streams end in good order.
func TestHTTP2Shutdown(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		finish := make(chan bool)
		s := start2(t, secure, all(patience), func(w http.ResponseWriter, r *http.Request) {
			<-finish
			io.WriteString(w, "done")
		})
		f := s.dialFramed(defaultWindow)
		f.open(1, getBlock, endStream)
		f.wantFrame("its settings", func(g got) bool { return g.kind == typeSettings })
		f.Send(ping)
		f.wantFrame("an answer", func(g got) bool { return g.kind == typePing })
		down := make(chan error, 1)
		go func() { down <- s.server.Shutdown(context.Background()) }()
		f.wantFrame("GOAWAY", func(g got) bool { return g.kind == typeGoAway && g.code(4) == 0 })
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

// A client that says hello while the server shuts down is served or sent away. It
// does not hold up the shutdown.
func TestHTTP2HelloDuringShutdown(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		begun, finish := make(chan bool, 1), make(chan bool, 1)
		s := start2(t, secure, all(patience), func(_ http.ResponseWriter, r *http.Request) {
			begun <- true
			select {
			case <-finish:
			case <-r.Context().Done():
			}
		})
		early, late := s.dialFramed(defaultWindow), s.Dial("h2")
		early.open(1, getBlock, endStream)
		httpsuite.Receive(t, begun)
		down := make(chan error, 1)
		go func() { down <- s.server.Shutdown(context.Background()) }()
		early.wantFrame("GOAWAY", func(g got) bool { return g.kind == typeGoAway && g.code(4) == 0 })
		late.Send(hello)
		late.Close()
		finish <- true
		early.wantEnd(1)
		early.Drain()
		if err := httpsuite.Receive(t, down); err != nil {
			t.Error(err)
		}
	})
}

// A server without keep-alives ends a connection after the requests in flight.
func TestHTTP2KeepAlivesDisabled(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		s := start2(t, secure, all(patience), echo)
		f := s.dialFramed(defaultWindow)
		f.open(1, getBlock, endStream)
		f.wantEnd(1)
		f.Send(ping)
		f.wantFrame("an answer", func(g got) bool { return g.kind == typePing })
		s.server.SetKeepAlivesEnabled(false)
		f.open(3, getBlock, endStream)
		f.wantEnd(3)
		f.wantFrame("GOAWAY", func(g got) bool { return g.kind == typeGoAway && g.code(4) == 0 })
		f.Drain()
		s.server.SetKeepAlivesEnabled(true)
		f = s.dialFramed(defaultWindow)
		for _, stream := range []uint32{1, 3} {
			f.open(stream, getBlock, endStream)
			f.wantEnd(stream)
		}
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
		f := s.dialFramed(defaultWindow)
		f.open(1, getBlock, endStream)
		httpsuite.Receive(t, begun)
		s.server.Close()
		f.Drain()
		if err := httpsuite.Receive(t, ended); !errors.Is(err, context.Canceled) {
			t.Errorf("the request's context: %v", err)
		}
	})
}
