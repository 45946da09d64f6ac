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
