package idlegnet

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/idle"
)

// TestStalledLoop keeps the loop from its work for several times the limit.
// Clients that sent something meanwhile stay, though there are more of them
// than the loop learns of at once; those that did not go.
func TestStalledLoop(t *testing.T) {
	const limit, talking, silent = 500 * ms, 600, 20
	for name, policy := range map[string]idle.Policy{
		"idle": {IdleTimeout: limit},
		"read": {ReadTimeout: limit},
		"rate": {MinReadRate: idle.Rate{BytesPerSecond: 1, Grace: limit}},
	} {
		t.Run(name, func(t *testing.T) {
			closed, onClose := closings()
			conns := make(chan gnet.Conn, talking+silent)
			var heard atomic.Int64
			resumed := make(chan struct{})
			s := serve(t, &handler{
				close: onClose,
				open:  func(c gnet.Conn) ([]byte, gnet.Action) { conns <- c; return nil, gnet.None },
				traffic: func(c gnet.Conn) gnet.Action {
					c.Discard(-1)
					if heard.Add(1) == talking {
						close(resumed)
					}
					return gnet.None
				},
			}, policy, nil, tcp(), gnet.WithNumEventLoop(1))
			var c gnet.Conn
			stalled, resume := make(chan struct{}), make(chan struct{})
			release := sync.OnceFunc(func() { close(resume) })
			t.Cleanup(release) // or the loop would never end
			talk := make([]func(), 0, talking)
			for range talking {
				nc := dial(t, s.address)
				talk = append(talk, func() { nc.Write([]byte("here")) })
				c = receive(t, conns)
			}
			for range silent {
				dial(t, s.address)
				c = receive(t, conns)
			}
			c.AsyncWrite(nil, func(gnet.Conn, error) error { close(stalled); <-resume; return nil })
			receive(t, stalled)
			if n := len(closed); n > 0 {
				t.Skip("too slow to get this far in time")
			}
			for _, f := range talk {
				f()
			}
			time.Sleep(3 * limit)
			release()
			receive(t, resumed)
			for range silent {
				if got := receive(t, closed); got.err == nil {
					t.Error("closed for nothing")
				}
			}
			if n := s.Stats().Tracked - s.Stats().Live; n > silent && heard.Load() < talking {
				t.Errorf("%d of %d went", n, talking+silent)
			}
		})
	}
}
