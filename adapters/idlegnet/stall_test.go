//go:build proof

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
	t.Parallel()
	const limit, talking, silent = 500 * ms, 600, 20
	for name, policy := range map[string]idle.Policy{
		"idle": {IdleTimeout: limit},
		"read": {ReadTimeout: limit},
		"rate": {MinReadRate: idle.Rate{BytesPerSecond: 1, Grace: limit}},
	} {
		t.Run(name, func(t *testing.T) {
			var heard atomic.Int64
			resumed := make(chan struct{})
			s := serve(t, &handler{traffic: func(c gnet.Conn) gnet.Action {
				if heard.Add(1) == talking {
					close(resumed)
				}
				return discard(c)
			}}, policy, nil, gnet.WithNumEventLoop(1))
			stalled, resume := make(chan struct{}), make(chan struct{})
			release := sync.OnceFunc(func() { close(resume) })
			t.Cleanup(release) // or the loop would never end
			var c gnet.Conn
			var talk []func()
			for i := range talking + silent {
				nc := dial(t, s.address)
				if c = receive(t, s.opened); i < talking {
					talk = append(talk, func() { nc.Write([]byte("here")) })
				}
			}
			c.AsyncWrite(nil, func(gnet.Conn, error) error { close(stalled); <-resume; return nil })
			receive(t, stalled)
			if len(s.closed) > 0 {
				t.Skip("too slow to get this far in time")
			}
			for _, f := range talk {
				f()
			}
			time.Sleep(3 * limit)
			release()
			receive(t, resumed)
			for range silent {
				if got := receive(t, s.closed); got.err == nil {
					t.Error("closed for nothing")
				}
			}
			if n := s.Stats().Tracked - s.Stats().Live; n > silent && heard.Load() < talking {
				t.Errorf("%d of %d went", n, talking+silent)
			}
		})
	}
}
