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
// OnTraffic replaces by another one.
func TestHandshakePhase(t *testing.T) {
	t.Parallel()
	const handshake, limit = 100 * ms, 400 * ms
	closed, onClose := closings()
	var h *Handler
	var ready *idle.Phase
	opened := make(chan gnet.Conn, 10)
	timeouts := make(chan *Conn, 10)
	user := &handler{
		close: onClose,
		boot: func(gnet.Engine) gnet.Action {
			var err error
			if ready, err = h.Phase(idle.Policy{IdleTimeout: limit}); err != nil {
				t.Error(err)
			}
			return gnet.None
		},
		open: func(c gnet.Conn) ([]byte, gnet.Action) {
			opened <- c
			timeouts <- h.Conn(c)
			return nil, gnet.None
		},
		traffic: func(c gnet.Conn) gnet.Action {
			c.Discard(-1)
			h.Conn(c).Enter(ready)
			return gnet.None
		},
	}
	h = wrap(t, user, idle.Policy{ReadTimeout: handshake}, nil)
	s := start(t, user, h, tcp(), nil)

	begun := time.Now()
	dial(t, s.address)
	expectTimeout(t, receive(t, closed), idle.ReasonRead, begun, handshake)

	inTime := intime.Of(t, handshake/2)
	nc := dial(t, s.address)
	begun = time.Now()
	nc.Write([]byte("hello"))
	expectTimeout(inTime, receive(t, closed), idle.ReasonIdle, begun, limit)

	// From another goroutine, which may come too late.
	for range 2 {
		receive(t, opened)
		receive(t, timeouts)
	}
	begun = time.Now()
	dial(t, s.address)
	c, kept := receive(t, opened), receive(t, timeouts)
	if err := kept.AsyncEnter(ready); err != nil {
		t.Error(err)
	}
	expectTimeout(inTime, receive(t, closed), idle.ReasonIdle, begun, limit)
	if err := kept.AsyncEnter(ready); err != nil {
		t.Error(err)
	}
	if err := kept.AsyncBeat(); err != nil {
		t.Error(err)
	}
	onLoop(t, c, func() { // nothing happens
		if h.Conn(c) != nil {
			t.Error("a closed connection has timeouts")
		}
		for _, timeouts := range []*Conn{kept, nil} {
			timeouts.Enter(ready)
			timeouts.Beat()
			timeouts.Sent(1)
			if err := timeouts.AsyncBeat(); err != nil {
				t.Error(err)
			}
		}
	})
	s.stop(t)
	if err := kept.AsyncEnter(ready); err == nil {
		t.Error("AsyncEnter after the end did not fail")
	}
}

// TestExemptPhase enters, in OnOpen, a phase without limits.
func TestExemptPhase(t *testing.T) {
	const limit = 50 * ms
	closed, onClose := closings()
	var h *Handler
	var exempt *idle.Phase
	user := &handler{
		close: onClose,
		boot: func(gnet.Engine) gnet.Action {
			exempt, _ = h.Phase(idle.Policy{})
			return gnet.None
		},
		open: func(c gnet.Conn) ([]byte, gnet.Action) { h.Conn(c).Enter(exempt); return nil, gnet.None },
	}
	h = wrap(t, user, idle.Policy{IdleTimeout: limit, ReadTimeout: limit, WriteTimeout: limit, MaxAge: time.Hour}, nil)
	s := start(t, user, h, tcp(), nil)
	nc := dial(t, s.address)
	time.Sleep(5 * limit)
	exchange(t, nc, "still there")
	if len(closed) > 0 {
		t.Error("closed: ", receive(t, closed).err)
	}
}

func TestPhaseFails(t *testing.T) {
	h := wrap(t, &handler{}, idle.Policy{IdleTimeout: time.Minute}, nil)
	if _, err := h.Phase(idle.Policy{}); err == nil {
		t.Error("before OnBoot it did not")
	}
	if st := h.Stats(); st.Tracked != 0 || h.Tracker() != nil {
		t.Error("counts before OnBoot")
	}
	user := &handler{}
	h = wrap(t, user, idle.Policy{IdleTimeout: time.Minute}, nil)
	s := start(t, user, h, tcp(), nil)
	if _, err := h.Phase(idle.Policy{IdleTimeout: -1}); err == nil {
		t.Error("with a bad policy it did not")
	}
	if _, err := h.Phase(idle.Policy{Heartbeat: idle.Heartbeat{Interval: 1, Timeout: 1}}); err == nil {
		t.Error("with a heartbeat but no Ping it did not")
	}
	s.stop(t)
}

// TestPassiveHeartbeat has a peer that beats, and then only sends.
func TestPassiveHeartbeat(t *testing.T) {
	t.Parallel()
	const interval = 300 * ms
	closed, onClose := closings()
	var h *Handler
	beats := make(chan time.Time, 100)
	user := &handler{close: onClose, traffic: func(c gnet.Conn) gnet.Action {
		b, _ := c.Next(-1)
		switch b[0] {
		case 'b':
			beats <- time.Now()
			h.Conn(c).Beat()
		case 'a':
			beats <- time.Now()
			go h.Conn(c).AsyncBeat()
		}
		return gnet.None
	}}
	h = wrap(t, user, idle.Policy{Heartbeat: idle.Heartbeat{Interval: interval, Passive: true}}, nil)
	s := start(t, user, h, tcp(), nil)
	inTime := intime.Of(t, interval/3)
	nc := dial(t, s.address)
	var last time.Time
	for i := range 30 {
		nc.Write([]byte{"ba"[i/15]})
		select {
		case last = <-beats:
		case got := <-closed:
			inTime.Fatal("closed: ", got.err)
		}
		time.Sleep(interval / 10)
	}
	if len(closed) > 0 {
		inTime.Fatal("closed: ", receive(t, closed).err)
	}
	for len(closed) == 0 {
		nc.Write([]byte{'x'})
		time.Sleep(interval / 20)
	}
	got := receive(t, closed)
	expectTimeout(t, got, idle.ReasonHeartbeat, last, interval)
}
