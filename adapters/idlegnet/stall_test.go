//go:build proof

package idlegnet

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
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

// TestSlowHandler has a handler that takes twice the limit to answer, and clients
// that send again a third of it after that. Nothing of the connection can move
// while the handler is at work, and the answer is not acknowledged at once, as the
// client does not read it at once; so it is not stale when the loop comes to look at
// it, just after the answer.
func TestSlowHandler(t *testing.T) {
	t.Parallel()
	const limit = 150 * ms
	for name, policy := range map[string]idle.Policy{
		"idle": {IdleTimeout: limit},
		"read": {ReadTimeout: limit},
	} {
		for _, address := range []string{"tcp://127.0.0.1:0", "unix://"} {
			t.Run(name+" "+address[:4], func(t *testing.T) {
				inTime := intime.Of(t, limit/4)
				closed, onClose := closings()
				answered := make(chan struct{}, 1)
				s := serve(t, &handler{
					close: onClose,
					open: func(gnet.Conn) ([]byte, gnet.Action) {
						time.Sleep(2 * limit)
						answered <- struct{}{}
						return []byte("!"), gnet.None
					},
					traffic: func(c gnet.Conn) gnet.Action {
						c.Discard(-1)
						time.Sleep(2 * limit)
						c.Write([]byte("!"))
						answered <- struct{}{}
						return gnet.None
					},
				}, policy, nil, []string{address}, gnet.WithNumEventLoop(1))
				nc := dial(t, s.address)
				for range 4 {
					delayAcknowledgements(nc)
					select {
					case <-answered:
					case got := <-closed:
						inTime.Fatal("closed: ", got.err)
					}
					time.Sleep(limit / 3)
					if len(closed) > 0 {
						inTime.Fatal("closed: ", receive(t, closed).err)
					}
					if _, err := nc.Read(make([]byte, 1)); err != nil {
						inTime.Fatal("instead of an answer: ", err)
					}
					nc.Write([]byte("?"))
				}
			})
		}
	}
}
