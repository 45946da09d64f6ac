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
	h := wrap(t, &handler{}, idle.Policy{IdleTimeout: time.Minute}, nil)
	h.OnBoot(gnet.Engine{})
	defer h.OnShutdown(gnet.Engine{})
	c := &onRefusing{lone{fake: fake{fd: 3}}, &refusing{}}
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

// TestNilConn: the methods of a nil Conn do nothing.
func TestNilConn(t *testing.T) {
	var c *Conn
	if c.Gnet() != nil || c.RemoteAddr() != nil || c.Idle() != 0 || c.Age() != 0 {
		t.Error("a nil Conn has something")
	}
	c.Beat()
	c.Use()
	if err := c.AsyncUse(); err != nil {
		t.Error(err)
	}
	c.End("none")
	c.Sent(1)
}
