//go:build proof

package idlegnet

import (
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/idle"
)

// TestDrain drains clients that are idle, one in a busy phase, and one that takes nothing.
func TestDrain(t *testing.T) {
	h := &handler{later: &idle.Policy{Name: "busy", NoInterrupt: true}}
	h.traffic = func(c gnet.Conn) gnet.Action {
		b, _ := c.Next(-1)
		switch b[0] {
		case 'b':
			h.wrapped.Conn(c).Enter(h.phase)
		case 'i':
			h.wrapped.Conn(c).Enter(h.wrapped.Tracker().Initial())
		case 'm':
			b = make([]byte, 64<<20)
		}
		c.Write(b)
		return gnet.None
	}
	s := serve(t, h, idle.Policy{IdleTimeout: time.Hour}, &Options{OnDrain: func(c gnet.Conn) { c.Write([]byte("bye")) }}, gnet.WithNumEventLoop(2))
	var idlers []net.Conn
	for range 4 {
		idlers = append(idlers, dial(t, s.address))
		exchange(t, idlers[len(idlers)-1], "x")
	}
	busy, greedy := dial(t, s.address), dial(t, s.address)
	exchange(t, busy, "b")
	io.WriteString(greedy, "m")
	read(t, greedy, 1)
	drain, err := s.Tracker().Drain(idle.Drain{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range idlers {
		if b, err := io.ReadAll(c); string(b) != "bye" || err != nil {
			t.Errorf("%q, %v", b, err)
		}
		if end := receive(t, s.closed); end.err.(*idle.TimeoutError).Reason != idle.ReasonDrain {
			t.Error(end.err)
		}
	}
	await(t, func() bool { return drain.Left() == 2 })
	if n, err := io.Copy(io.Discard, greedy); n != 64<<20-1+3 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	read(t, busy, 3)
	exchange(t, busy, "still there")
	io.WriteString(busy, "i")
	receive(t, drain.Done())
	if st := s.Stats(); st.Drained != 6 || st.Live != 0 {
		t.Errorf("%+v", st)
	}
}

// TestDrainWaitsForARequest: a request that the handler has not taken from gnet's buffer yet is not cut.
func TestDrainWaitsForARequest(t *testing.T) {
	arrived, taken := make(chan gnet.Conn, 1), make(chan bool)
	s := serve(t, &handler{traffic: func(c gnet.Conn) gnet.Action {
		select {
		case <-taken:
			c.Next(-1)
		default:
			arrived <- c
		}
		return gnet.None
	}}, idle.Policy{IdleTimeout: time.Hour}, nil)
	dial(t, s.address).Write([]byte("request"))
	c := receive(t, arrived)
	drain, err := s.Tracker().Drain(idle.Drain{})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-drain.Done():
		t.Error("the drain is over, though a request waits")
	case <-time.After(100 * ms):
	}
	close(taken)
	c.Wake(nil)
	receive(t, drain.Done())
}

// TestCapacityClosesTheNewcomer, of whom the user's handler does not hear.
func TestCapacityClosesTheNewcomer(t *testing.T) {
	s := serve(t, &handler{}, idle.Policy{IdleTimeout: time.Hour}, &Options{Capacity: idle.Capacity{MaxConns: 2, MinIdle: time.Hour}})
	first, second, third := dial(t, s.address), dial(t, s.address), dial(t, s.address)
	exchange(t, first, "x")
	exchange(t, second, "x")
	if _, err := third.Read(make([]byte, 1)); err != io.EOF && !errors.Is(err, syscall.ECONNRESET) {
		t.Error(err)
	}
	first.Close()
	await(t, func() bool { return s.Stats().Live == 1 })
	exchange(t, dial(t, s.address), "x")
	if st := s.Stats(); st.Refused != 1 || len(s.opened) != 3 || len(s.closed) != 1 {
		t.Errorf("%+v; OnOpen was called %d times, OnClose %d times", st, len(s.opened), len(s.closed))
	}
}

// TestPolicyIsReplaced while a connection is open. A policy that pings is refused if there is no Ping.
func TestPolicyIsReplaced(t *testing.T) {
	s := serve(t, &handler{}, idle.Policy{IdleTimeout: time.Hour}, nil)
	pings := idle.Policy{Heartbeat: idle.Heartbeat{Interval: time.Minute, Timeout: time.Minute}}
	if err := s.Tracker().SetPolicy(pings); err == nil || !strings.Contains(err.Error(), "Ping") {
		t.Error("without a Ping: ", err)
	}
	begun := time.Now()
	exchange(t, dial(t, s.address), "x")
	if err := s.Tracker().SetPolicy(idle.Policy{IdleTimeout: 200 * ms}); err != nil {
		t.Fatal(err)
	}
	s.wantTimeout(t, idle.ReasonIdle, begun, 200*ms)
}
