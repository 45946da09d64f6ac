//go:build proof

package idlegnet

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/idle"
)

// TestInputReadElsewhere has handlers that read where the adapter can't see it, or leave all that arrives in
// gnet's buffer, and clients that send all the time. None of them is silent or slow.
func TestInputReadElsewhere(t *testing.T) {
	t.Parallel()
	const limit = 500 * ms
	handlers := map[string]func() func(gnet.Conn) gnet.Action{
		"nobody": func() func(gnet.Conn) gnet.Action { return leave },
		"a task": func() func(gnet.Conn) gnet.Action {
			return func(c gnet.Conn) gnet.Action {
				if c.InboundBuffered() == 0 {
					return gnet.None
				}
				time.AfterFunc(5*ms, func() { // work elsewhere
					c.EventLoop().Execute(context.Background(), gnet.RunnableFunc(func(context.Context) error {
						c.Next(-1)
						return nil
					}))
				})
				return gnet.None
			}
		},
		"a callback of AsyncWrite": func() func(gnet.Conn) gnet.Action { // which takes one request after the other
			busy := false
			var next func(gnet.Conn) gnet.Action
			next = func(c gnet.Conn) gnet.Action {
				if busy || c.InboundBuffered() < 100 {
					return gnet.None
				}
				busy = true
				c.Next(100)
				time.AfterFunc(30*ms, func() {
					c.AsyncWrite([]byte("ok"), func(c gnet.Conn, err error) error {
						if err == nil {
							busy = false
							next(c)
						}
						return nil
					})
				})
				return gnet.None
			}
			return next
		},
	}
	for name, traffic := range handlers {
		for limited, policy := range map[string]idle.Policy{
			"ReadTimeout": {ReadTimeout: limit},
			"IdleTimeout": {IdleTimeout: limit},
			"MinReadRate": {MinReadRate: idle.Rate{BytesPerSecond: 200, Grace: 2 * limit}},
		} {
			t.Run(name+", "+limited, func(t *testing.T) {
				t.Parallel()
				onBoth(t, func(t *testing.T, at []string) {
					t.Parallel()
					s := serve(t, &handler{at: at, traffic: traffic()}, policy, nil)
					inTime := intime.Of(t, limit/4)
					nc := dial(t, s.address)
					go io.Copy(io.Discard, nc)
					for begun := time.Now(); time.Since(begun) < 5*limit && len(s.closed) == 0; time.Sleep(50 * ms) {
						nc.Write(make([]byte, 100))
					}
					s.wantOpen(inTime)
				})
			})
		}
	}
}
