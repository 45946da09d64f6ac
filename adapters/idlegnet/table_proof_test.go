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
	var gone []*Conn
	last := func(n int) []*Conn {
		mu.Lock()
		defer mu.Unlock()
		return append([]*Conn(nil), gone[max(0, len(gone)-n):]...)
	}
	h := &handler{later: &idle.Policy{IdleTimeout: 10 * ms}}
	h.open = func(c gnet.Conn) gnet.Action { c.SetContext(h.wrapped.Conn(c)); return gnet.None }
	h.traffic = func(c gnet.Conn) gnet.Action {
		b, _ := c.Next(-1)
		c.Write(b)
		for _, old := range last(20) { // on whatever loop this is
			if h.wrapped.Conn(old.Gnet()) != nil {
				t.Error("a closed connection has timeouts")
			}
		}
		return gnet.None
	}
	h.close = func(c gnet.Conn, _ error) gnet.Action {
		mu.Lock()
		defer mu.Unlock()
		gone = append(gone, c.Context().(*Conn))
		return gnet.None
	}
	s := serve(t, h, idle.Policy{IdleTimeout: time.Minute}, nil, gnet.WithNumEventLoop(4))
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for range 200 {
				nc := dial(t, s.address)
				if err := echo(nc, "hello"); err != nil {
					t.Error("a new connection got the phase of an old one: ", err)
				}
				nc.Close()
				for _, old := range last(1) {
					old.AsyncEnter(h.phase)
				}
			}
		})
	}
	clients.Wait()
	for _, old := range last(800) {
		old.AsyncEnter(h.phase)
		old.AsyncBeat()
	}
	s.stop(t)
	if st := s.Stats(); len(st.TimedOut) > 0 || st.Closed != st.Tracked || st.Tracked != 800 {
		t.Errorf("the counts are wrong: %+v", st)
	}
}
