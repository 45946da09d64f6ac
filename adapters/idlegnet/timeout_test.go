//go:build proof

package idlegnet

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/adapters/internal/kernel"
	"github.com/idlewheel/idlewheel/idle"
)

// TestEveryMode has an active and a silent connection in each of gnet's modes:
// only the silent one is closed, its handler learns why, and is disturbed in
// nothing else.
func TestEveryMode(t *testing.T) {
	t.Parallel()
	const limit = 300 * ms
	const tcp, unix, udp = "tcp://127.0.0.1:0", "unix://", "udp://127.0.0.1:0"
	two := gnet.WithNumEventLoop(2)
	for name, mode := range map[string]struct {
		at   []string
		opts []gnet.Option
	}{
		"one loop":       {[]string{tcp}, nil},
		"reactors":       {[]string{tcp}, []gnet.Option{two}},
		"reuseport":      {[]string{tcp}, []gnet.Option{two, gnet.WithReusePort(true)}},
		"edge-triggered": {[]string{tcp}, []gnet.Option{two, gnet.WithEdgeTriggeredIO(true)}},
		"locked threads": {[]string{tcp}, []gnet.Option{two, gnet.WithLockOSThread(true)}},
		"unix":           {[]string{unix}, []gnet.Option{two}},
		"several":        {[]string{tcp, unix, tcp}, []gnet.Option{two}},
		"with UDP":       {[]string{tcp, udp}, []gnet.Option{two}},
	} {
		t.Run(name, func(t *testing.T) {
			inTime := intime.Of(t, limit/4)
			var said sync.Map // what each connection has said last
			s := serve(t, &handler{
				at:   mode.at,
				open: func(c gnet.Conn) gnet.Action { c.SetContext(c); return gnet.None },
				traffic: func(c gnet.Conn) gnet.Action {
					b, _ := c.Next(-1)
					said.Store(c, string(b))
					c.Write(b)
					return gnet.None
				},
				close: func(c gnet.Conn, err error) gnet.Action {
					if c.Context() != c {
						t.Error("the context was touched")
					}
					return gnet.None
				},
			}, idle.Policy{IdleTimeout: limit}, nil, mode.opts...)
			ends := uint64(0)
			for _, address := range mode.at {
				silent, active := dial(t, address), dial(t, address)
				exchange(inTime, active, "active")
				if active.LocalAddr().Network() == "udp" {
					continue // that is all there is to it
				}
				begun := time.Now()
				exchange(inTime, silent, "silent")
				// What makes it live is that its exchanges go on without a gap.
				for len(s.closed) == 0 {
					exchange(inTime, active, "active")
					if time.Since(begun) > patience {
						t.Fatal("the silent connection stayed")
					}
				}
				got := s.wantTimeout(inTime, idle.ReasonIdle, begun, limit)
				if what, _ := said.Load(got.c); what != "silent" {
					inTime.Fatalf("the %v connection was closed by %v", what, got.err)
				}
				if _, err := silent.Read(make([]byte, 1)); err != io.EOF {
					t.Error("the client saw ", err)
				}
				active.Close()
				if got := receive(t, s.closed); !errors.Is(got.err, io.EOF) {
					inTime.Error("the error of a connection that its client closed became ", got.err)
				}
				ends++
			}
			s.stop(t)
			if st := s.Stats(); st.Live != 0 || st.Tracked != 2*ends || st.Closed != ends || st.TimedOut[idle.ReasonIdle] != ends {
				inTime.Errorf("the counts are wrong: %+v", st)
			}
		})
	}
}

// TestWakeIsNoActivity wakes a silent connection all the time.
func TestWakeIsNoActivity(t *testing.T) {
	if !kernel.SeesOutput {
		t.Skip("the kernel doesn't tell when bytes arrived, so those that are left may be new")
	}
	const limit = 200 * ms
	var wakes atomic.Int64
	s := serve(t, &handler{traffic: func(c gnet.Conn) gnet.Action {
		if wakes.Add(1) == 1 {
			c.Next(1) // of the three bytes that came; two stay in the buffer
		}
		return gnet.None
	}}, idle.Policy{IdleTimeout: limit}, nil)
	inTime := intime.Of(t, limit/4)
	nc := dial(t, s.address)
	begun := time.Now()
	nc.Write([]byte("abc"))
	c := receive(t, s.opened)
	await(t, func() bool { c.Wake(nil); return len(s.closed) > 0 })
	s.wantTimeout(t, idle.ReasonIdle, begun, limit)
	if wakes.Load() < 10 {
		inTime.Error("there were hardly any wakes")
	}
}

// TestShutdownIsReturned by OnClose after a timeout, or by OnTick.
func TestShutdownIsReturned(t *testing.T) {
	for name, h := range map[string]*handler{
		"OnClose": {close: func(gnet.Conn, error) gnet.Action { return gnet.Shutdown }},
		"OnTick":  {tick: func() (time.Duration, gnet.Action) { return time.Hour, gnet.Shutdown }},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, h, idle.Policy{IdleTimeout: 20 * ms}, nil, gnet.WithTicker(name == "OnTick"))
			if name == "OnClose" {
				dial(t, s.address)
			}
			s.await(t)
		})
	}
}
