package idlehttp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

// A server that shuts down says so, and its streams end in good order. A client that says
// hello meanwhile is served or sent away, and does not hold up the shutdown.
func TestHTTP2Shutdown(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		begun, finish := make(chan bool, 1), make(chan bool)
		h := func(w http.ResponseWriter, r *http.Request) {
			begun <- true
			<-finish
			io.WriteString(w, "done")
		}
		virtually(t, secure, all(time.Hour), defaultWindow, h, func(t *testing.T, f framed) {
			late := f.site.silent()
			f.open(1, getBlock, endStream)
			<-begun
			down := make(chan error, 1)
			go func() { down <- f.site.server.Shutdown(context.Background()) }()
			f.wantGoAway()
			late.Send(hello)
			late.Close()
			f.open(3, getBlock, endStream) // it is ignored
			finish <- true
			f.wantEnd(1)
			f.Drain()
			if err := <-down; err != nil {
				t.Error(err)
			}
			f.site.wantReset(0)
		})
	})
}

func TestHTTP2KeepAlivesDisabled(t *testing.T) {
	virtual(t, all(time.Hour), defaultWindow, echo, func(t *testing.T, f framed) {
		s := f.site
		f.get(1)
		f.Send(ping)
		f.wantFrame("an answer", func(g got) bool { return g.kind == typePing })
		s.server.SetKeepAlivesEnabled(false)
		f.get(3)
		f.wantGoAway()
		f.Drain()
		s.server.SetKeepAlivesEnabled(true)
		f = s.another()
		f.get(1)
		f.get(3)
		s.WantNone()
	})
}

// A server that is closed ends its connections and streams.
func TestHTTP2Close(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		begun, ended := make(chan bool, 1), make(chan error, 1)
		h := func(w http.ResponseWriter, r *http.Request) {
			begun <- true
			<-r.Context().Done()
			ended <- r.Context().Err()
		}
		virtually(t, secure, all(time.Hour), defaultWindow, h, func(t *testing.T, f framed) {
			f.open(1, getBlock, endStream)
			<-begun
			f.site.server.Close()
			f.Drain()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("the request's context: %v", err)
			}
		})
	})
}

// pong answers a ping of the server's.
func (f framed) pong(ping got) { f.Send(frame(typePing, 1, 0, string(ping.payload))) }

// frames returns the next frames that are of the given types.
func (f framed) frames(types ...byte) (all []got) {
	f.T.Helper()
	for len(all) < len(types) {
		g, err := f.read()
		if err != nil {
			f.T.Fatalf("got %v, want a frame of type %d", err, types[len(all)])
		}
		switch {
		case g.kind == types[len(all)]:
			all = append(all, g)
		case g.kind == typeGoAway || len(all) == 0 && types[0] == typeSettings:
			f.T.Fatalf("got a frame of type %d, want one of type %d", g.kind, types[len(all)])
		}
	}
	return all
}

// wantLeave reads the two GOAWAYs of a connection that ends, of which the first one accepts
// all streams. Between them the client does something.
func (f framed) wantLeave(last uint32, meanwhile func()) {
	f.T.Helper()
	first := f.frames(typeGoAway, typePing)
	if stream, code := first[0].code(0), first[0].code(4); stream != 1<<31-1 || code != 0 {
		f.T.Errorf("the first GOAWAY has the stream %d and the code %d", stream, code)
	}
	meanwhile()
	f.pong(first[1])
	second := f.frames(typeGoAway)[0]
	if stream, code := second.code(0), second.code(4); stream != last || code != 0 {
		f.T.Errorf("the second GOAWAY has the stream %d and the code %d, want stream %d", stream, code, last)
	}
}

// Before a connection ends by KeepAliveTimeout, its client is told. A request that is on
// its way is answered.
func TestHTTP2KeepAliveEndsInTwoSteps(t *testing.T) {
	virtual(t, Timeouts{}, defaultWindow, answers, func(t *testing.T, f framed) {
		f.get(1)
		last := time.Now()
		leave := f.frames(typeGoAway, typePing)
		f.open(3, getBlock, endStream)
		f.pong(leave[1])
		f.wantEnd(3)
		if second := f.frames(typeGoAway)[0]; second.code(0) != 3 {
			t.Errorf("the last stream is %d", second.code(0))
		}
		if took := f.Drain().Sub(last); took < 150*time.Second || took > 155*time.Second {
			t.Errorf("it took %v", took)
		}
		f.site.WantOnly(1, "keep-alive", idle.ReasonPhase)
	})
}

// So is that of a connection that is drained, even if it is new. Nothing comes before the
// server's SETTINGS. The time is virtual, because net/http gives the client only 2 s for its own
// SETTINGS, and a busy machine may take longer.
func TestHTTP2DrainEndsInTwoSteps(t *testing.T) {
	virtual(t, Timeouts{}, defaultWindow, echo, func(t *testing.T, used framed) {
		s := used.site
		fresh := s.silent()
		used.get(1)
		httpsuite.Eventually(t, "both are accepted", func() bool { return s.Stats().Live == 2 })
		down := make(chan error, 1)
		go func() { down <- s.Setup.Drain(t.Context(), idle.Drain{}) }()
		used.wantLeave(3, func() {
			used.open(3, getBlock, endStream)
			used.wantEnd(3)
		})
		used.Drain()
		httpsuite.Eventually(t, "the new one is told", func() bool { return s.Setup.Told() == 1 })
		fresh.Send(hello)
		fresh.frames(typeSettings)
		fresh.wantLeave(1, func() {
			fresh.open(1, getBlock, endStream)
			fresh.wantEnd(1)
		})
		fresh.Drain()
		if err := httpsuite.Receive(t, down); err != nil {
			t.Error(err)
		}
	})
}
