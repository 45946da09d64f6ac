package idlegnet

import (
	"strings"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/idle"
)

// TestEnterPanics has a nil phase, which need not come to the connection's loop to be
// found, and one that pings though nobody can.
func TestEnterPanics(t *testing.T) {
	h := booted(t, &handler{}, idle.Policy{IdleTimeout: time.Minute}, nil)
	c := &fake{fd: 3, loop: &fakeLoop{}}
	h.OnOpen(c)
	defer h.OnClose(c, nil)
	pings, err := h.Tracker().Phase(idle.Policy{Heartbeat: idle.Heartbeat{Interval: time.Second, Timeout: time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	for want, enter := range map[string]func(){
		"idlegnet: Enter(nil); did Phase":          func() { h.Conn(c).Enter(nil) },
		"idlegnet: AsyncEnter(nil); did Phase":     func() { h.Conn(c).AsyncEnter(nil) },
		"(every 1s), but there is no Ping to call": func() { h.Conn(c).Enter(pings) },
	} {
		func() {
			defer func() {
				if p, _ := recover().(string); !strings.Contains(p, want) {
					t.Errorf("it panics with %q, want %q", p, want)
				}
			}()
			enter()
		}()
	}
}

// TestNilConn: the methods of a nil Conn do nothing, and a closed one has no age.
func TestNilConn(t *testing.T) {
	var c *Conn
	closed := (*Conn)(&conn{rare: &rare{inbound: -1}})
	if c.Gnet() != nil || c.RemoteAddr() != nil || c.Idle() != 0 || c.Age() != 0 || closed.Idle() != 0 || closed.Age() != 0 {
		t.Error("a nil or closed Conn has something")
	}
	c.Enter(new(idle.Phase))
	c.Beat()
	c.Use()
	for _, err := range []error{c.AsyncUse(), c.AsyncBeat(), c.AsyncEnter(new(idle.Phase))} {
		if err != nil {
			t.Error(err)
		}
	}
	c.End("none")
	c.Sent(1)
}

func TestPhaseFails(t *testing.T) {
	h := wrap(t, &handler{}, idle.Policy{IdleTimeout: time.Minute}, nil)
	if _, err := h.Phase(idle.Policy{}); err != errNotBooted || h.Stats().Tracked != 0 || h.Tracker() != nil {
		t.Errorf("before OnBoot: %v, %+v, %v", err, h.Stats(), h.Tracker())
	}
	h.OnBoot(gnet.Engine{})
	defer h.OnShutdown(gnet.Engine{})
	for want, p := range map[string]idle.Policy{
		"IdleTimeout is -1ns": {IdleTimeout: -1},
		"no Ping to call":     {Heartbeat: idle.Heartbeat{Interval: time.Second, Timeout: time.Second}},
	} {
		if _, err := h.Phase(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestHandshakePhase begins with a short limit, which a client passes, or which
// OnTraffic or another goroutine replaces by another one.
func TestHandshakePhase(t *testing.T) {
	const handshake, limit = 100 * ms, 400 * ms
	h := &handler{later: &idle.Policy{IdleTimeout: limit}}
	h.traffic = func(c gnet.Conn) gnet.Action {
		h.wrapped.Conn(c).Enter(h.phase)
		return discard(c)
	}
	virtually(t, h, idle.Policy{ReadTimeout: handshake}, nil, func(w *world) {
		begun := time.Now()
		w.open()
		w.wantTimeout(idle.ReasonRead, begun, handshake)

		begun = time.Now()
		c, _ := w.open()
		w.send(c, 5)
		w.wantTimeout(idle.ReasonIdle, begun, limit)

		begun = time.Now()
		c, kept := w.open()
		async := func() {
			for _, err := range []error{kept.AsyncEnter(h.phase), kept.AsyncBeat(), kept.AsyncUse()} {
				if err != nil {
					w.Error(err)
				}
			}
		}
		async()
		w.wantTimeout(idle.ReasonIdle, begun, limit)
		async() // and nothing happens
		w.do(func() {
			if w.Conn(c) != nil {
				w.Error("a closed connection has timeouts")
			}
			kept.Enter(h.phase)
			kept.Beat()
			kept.Sent(1)
		})
	})
}

// TestExemptPhase enters, in OnOpen, a phase without limits.
func TestExemptPhase(t *testing.T) {
	h := &handler{later: &idle.Policy{}}
	h.open = func(c gnet.Conn) gnet.Action { h.wrapped.Conn(c).Enter(h.phase); return gnet.None }
	virtually(t, h, idle.Policy{IdleTimeout: ms * 50, ReadTimeout: ms * 50, WriteTimeout: ms * 50, MaxAge: time.Hour}, nil, func(w *world) {
		w.open()
		time.Sleep(time.Minute)
		w.wantOpen(w)
	})
}

// TestPassiveHeartbeat has a peer that beats, and then only sends.
func TestPassiveHeartbeat(t *testing.T) {
	const interval = time.Second
	virtually(t, &handler{traffic: discard}, idle.Policy{Heartbeat: idle.Heartbeat{Interval: interval, Passive: true}}, nil, func(w *world) {
		c, conn := w.open()
		for i := range 10 {
			time.Sleep(9 * interval / 10)
			if i < 5 {
				w.do(conn.Beat)
			} else if err := conn.AsyncBeat(); err != nil {
				w.Error(err)
			}
		}
		last := time.Now()
		for len(w.closed) == 0 {
			w.send(c, 1)
			time.Sleep(interval / 20)
		}
		w.wantTimeout(idle.ReasonHeartbeat, last, interval)
	})
}

// ping writes a ping.
func ping(c gnet.Conn) error { _, err := c.Write([]byte{'?'}); return err }

// TestExplicitUse has a client that answers pings, and is used once.
func TestExplicitUse(t *testing.T) {
	const interval, limit = 50 * ms, 600 * ms
	p := idle.Policy{IdleTimeout: limit, ExplicitUse: true, Heartbeat: idle.Heartbeat{Interval: interval, Timeout: interval}}
	virtually(t, &handler{traffic: discard}, p, &Options{Ping: ping}, func(w *world) {
		c, conn := w.open()
		used := time.Now().Add(limit / 2)
		for len(w.closed) == 0 {
			if time.Now().Equal(used) {
				w.do(conn.Use)
			}
			time.Sleep(interval)
			w.send(c, 1)
		}
		w.wantTimeout(idle.ReasonIdle, used, limit)
	})
}

// TestOnTimeout keeps a connection twice. Then its refusal is final, even though it has written
// something, and has taken so long that the limit is checked again.
func TestOnTimeout(t *testing.T) {
	const limit = 100 * ms
	asked := 0
	virtually(t, &handler{}, idle.Policy{IdleTimeout: limit}, &Options{OnTimeout: func(c gnet.Conn, _ *idle.TimeoutError) bool {
		asked++
		ping(c)
		if asked == 3 {
			time.Sleep(limit)
		}
		return asked < 3
	}}, func(w *world) {
		begun := time.Now()
		c, _ := w.open()
		w.wantTimeout(idle.ReasonIdle, begun.Add(3*limit), limit)
		if c.written != "???" || asked != 3 {
			w.Errorf("asked %d times, and the client was told %q", asked, c.written)
		}
	})
}

// TestPolicyIsReplaced while a connection is open. A policy that pings is refused if there is no Ping.
func TestPolicyIsReplaced(t *testing.T) {
	virtually(t, &handler{}, idle.Policy{IdleTimeout: time.Hour}, nil, func(w *world) {
		pings := idle.Policy{Heartbeat: idle.Heartbeat{Interval: time.Minute, Timeout: time.Minute}}
		if err := w.Tracker().SetPolicy(pings); err == nil || !strings.Contains(err.Error(), "Ping") {
			w.Error("without a Ping: ", err)
		}
		begun := time.Now()
		w.open()
		if err := w.Tracker().SetPolicy(idle.Policy{IdleTimeout: 200 * ms}); err != nil {
			w.Fatal(err)
		}
		w.wantTimeout(idle.ReasonIdle, begun, 200*ms)
	})
}
