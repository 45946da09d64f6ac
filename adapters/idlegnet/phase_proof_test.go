//go:build proof

package idlegnet

import (
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/idle"
)

// TestHandshakePhase begins with a short limit, which a client passes, or which
// OnTraffic or another goroutine replaces by another one.
func TestHandshakePhase(t *testing.T) {
	t.Parallel()
	const handshake, limit = 100 * ms, 400 * ms
	timeouts := make(chan *Conn, 3)
	h := &handler{later: &idle.Policy{IdleTimeout: limit}}
	h.open = func(c gnet.Conn) gnet.Action { timeouts <- h.wrapped.Conn(c); return gnet.None }
	h.traffic = func(c gnet.Conn) gnet.Action {
		h.wrapped.Conn(c).Enter(h.phase)
		return discard(c)
	}
	s := serve(t, h, idle.Policy{ReadTimeout: handshake}, nil)

	begun := time.Now()
	dial(t, s.address)
	receive(t, timeouts)
	s.wantTimeout(t, idle.ReasonRead, begun, handshake)

	inTime := intime.Of(t, handshake/2)
	nc := dial(t, s.address)
	begun = time.Now()
	nc.Write([]byte("hello"))
	receive(t, timeouts)
	s.wantTimeout(inTime, idle.ReasonIdle, begun, limit)

	begun = time.Now()
	dial(t, s.address)
	kept := receive(t, timeouts)
	async := func() {
		if err := kept.AsyncEnter(h.phase); err != nil {
			t.Error(err)
		}
		if err := kept.AsyncBeat(); err != nil {
			t.Error(err)
		}
	}
	async()
	s.wantTimeout(inTime, idle.ReasonIdle, begun, limit)
	async()
	onLoop(t, kept.Gnet(), func() { // nothing happens
		if s.Conn(kept.Gnet()) != nil {
			t.Error("a closed connection has timeouts")
		}
		kept.Enter(h.phase)
		kept.Beat()
		kept.Sent(1)
	})
	s.stop(t)
	if err := kept.AsyncEnter(h.phase); err == nil {
		t.Error("AsyncEnter after the end did not fail")
	}
}

// TestExemptPhase enters, in OnOpen, a phase without limits.
func TestExemptPhase(t *testing.T) {
	const limit = 50 * ms
	h := &handler{later: &idle.Policy{}}
	h.open = func(c gnet.Conn) gnet.Action { h.wrapped.Conn(c).Enter(h.phase); return gnet.None }
	s := serve(t, h, idle.Policy{IdleTimeout: limit, ReadTimeout: limit, WriteTimeout: limit, MaxAge: time.Hour}, nil)
	nc := dial(t, s.address)
	time.Sleep(5 * limit)
	exchange(t, nc, "still there")
	s.wantOpen(t)
}

// TestPassiveHeartbeat has a peer that beats, and then only sends.
func TestPassiveHeartbeat(t *testing.T) {
	t.Parallel()
	const interval = 300 * ms
	h, beats := &handler{}, make(chan time.Time, 100)
	h.traffic = func(c gnet.Conn) gnet.Action {
		b, _ := c.Next(-1)
		if b[0] != 'x' {
			beats <- time.Now()
		}
		switch b[0] {
		case 'b':
			h.wrapped.Conn(c).Beat()
		case 'a':
			go h.wrapped.Conn(c).AsyncBeat()
		}
		return gnet.None
	}
	s := serve(t, h, idle.Policy{Heartbeat: idle.Heartbeat{Interval: interval, Passive: true}}, nil)
	inTime := intime.Of(t, interval/3)
	nc := dial(t, s.address)
	var last time.Time
	for i := range 30 {
		nc.Write([]byte{"ba"[i/15]})
		select {
		case last = <-beats:
		case got := <-s.closed:
			inTime.Fatal("closed: ", got.err)
		}
		time.Sleep(interval / 10)
	}
	for len(s.closed) == 0 {
		nc.Write([]byte{'x'})
		time.Sleep(interval / 20)
	}
	s.wantTimeout(t, idle.ReasonHeartbeat, last, interval)
}
