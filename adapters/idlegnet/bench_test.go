package idlegnet

import (
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/idle"
)

// traffic returns what calls OnTraffic with new bytes, as a loop does. The user's handler
// only reads, so that what remains is the adapter.
func traffic(tb testing.TB, wrapped bool) func() {
	user := &handler{traffic: func(c gnet.Conn) gnet.Action {
		c.(*fake).in = 0
		return gnet.None
	}}
	var h gnet.EventHandler = user
	if wrapped {
		h = booted(tb, user, idle.Policy{
			IdleTimeout: time.Minute, ReadTimeout: time.Minute, WriteTimeout: time.Minute, MaxAge: time.Hour,
			Heartbeat: idle.Heartbeat{Interval: time.Minute, Timeout: time.Minute},
		}, &Options{Ping: func(gnet.Conn) error { return nil }})
	}
	c := &fake{fd: 7, loop: &fakeLoop{}}
	h.OnOpen(c)
	tb.Cleanup(func() { h.OnClose(c, nil) })
	return func() {
		c.in = 64
		h.OnTraffic(c)
	}
}

func TestOnTrafficAllocatesNothing(t *testing.T) {
	if n := testing.AllocsPerRun(1000, traffic(t, true)); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkOnTraffic(b *testing.B) {
	for name, wrapped := range map[string]bool{"bare": false, "wrapped": true} {
		b.Run(name, func(b *testing.B) {
			f := traffic(b, wrapped)
			for b.Loop() {
				f()
			}
		})
	}
}
