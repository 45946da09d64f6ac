//go:build proof

package idlegnet

import (
	"errors"
	"io"
	"net"
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
