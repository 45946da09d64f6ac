//go:build proof

package idlegnet

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/idle"
)

// TestInputReadElsewhere has handlers that read where the adapter can't see it, and clients that send
// all the time. None of them is silent or slow.
func TestInputReadElsewhere(t *testing.T) {
	t.Parallel()
	const limit = 500 * ms
	handlers := map[string]func() *handler{
		"a task": func() *handler {
			return &handler{traffic: func(c gnet.Conn) gnet.Action {
				if c.InboundBuffered() == 0 {
					return gnet.None
				}
				go func() {
					time.Sleep(5 * ms) // work elsewhere
					c.EventLoop().Execute(context.Background(), gnet.RunnableFunc(func(context.Context) error {
						c.Next(-1)
						return nil
					}))
				}()
				return gnet.None
			}}
		},
		"a callback of AsyncWrite": func() *handler { // which takes one request after the other
			busy := false
			var next func(gnet.Conn)
			next = func(c gnet.Conn) {
				if busy || c.InboundBuffered() < 100 {
					return
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
			}
			return &handler{traffic: func(c gnet.Conn) gnet.Action { next(c); return gnet.None }}
		},
	}
	policies := map[string]idle.Policy{
		"ReadTimeout": {ReadTimeout: limit},
		"IdleTimeout": {IdleTimeout: limit},
		"MinReadRate": {MinReadRate: idle.Rate{BytesPerSecond: 200, Grace: 2 * limit}},
	}
	for name, make := range handlers {
		for limited, policy := range policies {
			for _, address := range []string{"tcp://127.0.0.1:0", "unix://"} {
				t.Run(name+", "+limited+", "+address[:4], func(t *testing.T) {
					t.Parallel()
					closed, onClose := closings()
					h := make()
					h.close = onClose
					s := serve(t, h, policy, nil, []string{address})
					inTime := intime.Of(t, limit/4)
					nc := dial(t, s.address)
					go io.Copy(io.Discard, nc)
					sendFor(nc, 5*limit)
					if len(closed) > 0 {
						inTime.Error("closed: ", receive(t, closed).err)
					}
				})
			}
		}
	}
}

// sendFor sends 100 bytes every 50 ms, for a while.
func sendFor(nc net.Conn, d time.Duration) {
	for begun := time.Now(); time.Since(begun) < d; time.Sleep(50 * ms) {
		if _, err := nc.Write(make([]byte, 100)); err != nil {
			return
		}
	}
}
