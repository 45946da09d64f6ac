//go:build proof

package idlegnet

import (
	"sync"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/idle"
)

// TestStaleConns keeps connections that are closed, and looks them up and enters
// phases for them, while their descriptors are reused on several loops.
func TestStaleConns(t *testing.T) {
	var mu sync.Mutex
	var gone []gnet.Conn
	var timeouts []*Conn
	var h *Handler
	var phase *idle.Phase
	stale := func() []gnet.Conn {
		mu.Lock()
		defer mu.Unlock()
		return append([]gnet.Conn(nil), gone[max(0, len(gone)-20):]...)
	}
	touch := func() {
		for _, c := range stale() { // on whatever loop this is
			if h.Conn(c) != nil {
				t.Error("a closed connection has timeouts")
			}
		}
	}
	user := &handler{
		open: func(c gnet.Conn) ([]byte, gnet.Action) {
			c.SetContext(h.Conn(c))
			return nil, gnet.None
		},
		boot: func(gnet.Engine) gnet.Action {
			var err error
			if phase, err = h.Phase(idle.Policy{IdleTimeout: 10 * ms}); err != nil {
				t.Error(err)
			}
			return gnet.None
		},
		traffic: func(c gnet.Conn) gnet.Action {
			b, _ := c.Next(-1)
			c.Write(b)
			touch()
			return gnet.None
		},
		close: func(c gnet.Conn, _ error) gnet.Action {
			mu.Lock()
			defer mu.Unlock()
			gone = append(gone, c)
			timeouts = append(timeouts, c.Context().(*Conn))
			return gnet.None
		},
	}
	h = wrap(t, user, idle.Policy{IdleTimeout: time.Minute}, nil)
	s := start(t, user, h, tcp(), []gnet.Option{gnet.WithNumEventLoop(4)})
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for range 200 {
				nc := dial(t, s.address)
				if err := echo(nc, "hello"); err != nil {
					t.Error("a new connection got the phase of an old one: ", err)
				}
				nc.Close()
				mu.Lock()
				if n := len(timeouts); n > 0 {
					timeouts[n-1].AsyncEnter(phase)
				}
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	mu.Lock()
	for _, c := range timeouts {
		c.AsyncEnter(phase)
		c.AsyncBeat()
	}
	mu.Unlock()
	s.stop(t)
	if st := h.Stats(); len(st.TimedOut) > 0 || st.Closed != st.Tracked || st.Tracked != 800 {
		t.Errorf("the counts are wrong: %+v", st)
	}
}
