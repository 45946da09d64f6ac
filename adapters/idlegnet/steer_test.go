//go:build proof

package idlegnet

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/idle"
)

// TestDrain drains clients that are idle, one in a busy phase, and one that takes nothing.
func TestDrain(t *testing.T) {
	closed, onClose := closings()
	var h atomic.Pointer[Handler]
	s := serve(t, &handler{close: onClose, traffic: func(c gnet.Conn) gnet.Action {
		b, _ := c.Next(-1)
		switch {
		case b[0] == 'b':
			busy, err := h.Load().Phase(idle.Policy{Name: "busy", NoInterrupt: true})
			if err != nil {
				t.Error(err)
			}
			h.Load().Conn(c).Enter(busy)
		case b[0] == 'i':
			h.Load().Conn(c).Enter(h.Load().Tracker().Initial())
		case b[0] == 'm':
			c.Write(make([]byte, 64<<20))
			return gnet.None
		}
		c.Write(b)
		return gnet.None
	}}, idle.Policy{IdleTimeout: time.Hour}, &Options{OnDrain: func(c gnet.Conn) { c.Write([]byte("bye")) }}, tcp(), gnet.WithNumEventLoop(2))
	h.Store(s.Handler)
	var idlers []net.Conn
	for range 4 {
		c := dial(t, s.address)
		exchange(t, c, "x")
		idlers = append(idlers, c)
	}
	busy, greedy := dial(t, s.address), dial(t, s.address)
	exchange(t, busy, "b")
	if _, err := io.WriteString(greedy, "m"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(greedy, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	drain, err := s.Tracker().Drain(idle.Drain{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range idlers {
		if b, err := io.ReadAll(c); string(b) != "bye" || err != nil {
			t.Errorf("%q, %v", b, err)
		}
		if end := receive(t, closed); end.err.(*idle.TimeoutError).Reason != idle.ReasonDrain {
			t.Error(end.err)
		}
	}
	for begun := time.Now(); drain.Left() != 2; {
		if time.Since(begun) > patience {
			t.Fatalf("%d are left", drain.Left())
		}
		time.Sleep(time.Millisecond)
	}
	if n, err := io.Copy(io.Discard, greedy); n != 64<<20-1+3 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	if err := echo(busy, "bye"); err != nil { // what OnDrain wrote, as it is the same
		t.Error(err)
	}
	if err := echo(busy, "bye"); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadFull(busy, make([]byte, 3)); err != nil { // or the server might read both messages as one
		t.Error(err)
	}
	io.WriteString(busy, "i")
	receive(t, drain.Done())
	if st := s.Stats(); st.Drained != 6 || st.Live != 0 {
		t.Errorf("%+v", st)
	}
}

// TestEndByHand ends a connection from another goroutine.
func TestEndByHand(t *testing.T) {
	closed, onClose := closings()
	var h atomic.Pointer[Handler]
	opened := make(chan *Conn, 1)
	s := serve(t, &handler{close: onClose, traffic: func(c gnet.Conn) gnet.Action {
		opened <- h.Load().Conn(c)
		return gnet.None
	}}, idle.Policy{IdleTimeout: time.Hour}, nil, tcp())
	h.Store(s.Handler)
	client := dial(t, s.address)
	io.WriteString(client, "x")
	receive(t, opened).End("banned")
	if end := receive(t, closed); end.err.(*idle.TimeoutError).Cause != "banned" {
		t.Error(end.err)
	}
	if b, err := io.ReadAll(client); len(b) > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%q, %v", b, err)
	}
}

// TestCapacityClosesTheNewcomer, of whom the user's handler does not hear.
func TestCapacityClosesTheNewcomer(t *testing.T) {
	var opens, closes atomic.Int32
	s := serve(t, &handler{
		open:  func(gnet.Conn) ([]byte, gnet.Action) { opens.Add(1); return nil, gnet.None },
		close: func(gnet.Conn, error) gnet.Action { closes.Add(1); return gnet.None },
	}, idle.Policy{IdleTimeout: time.Hour}, nil, tcp())
	if err := s.Tracker().SetCapacity(idle.Capacity{MaxConns: 2, MinIdle: time.Hour}); err != nil {
		t.Fatal(err)
	}
	first, second, third := dial(t, s.address), dial(t, s.address), dial(t, s.address)
	exchange(t, first, "x")
	exchange(t, second, "x")
	if _, err := third.Read(make([]byte, 1)); err != io.EOF && !errors.Is(err, syscall.ECONNRESET) {
		t.Error(err)
	}
	first.Close()
	for begun := time.Now(); s.Stats().Live > 1; time.Sleep(time.Millisecond) {
		if time.Since(begun) > patience {
			t.Fatalf("%+v", s.Stats())
		}
	}
	exchange(t, dial(t, s.address), "x")
	if st := s.Stats(); st.Refused != 1 || opens.Load() != 3 || closes.Load() != 1 {
		t.Errorf("%+v; OnOpen was called %d times, OnClose %d times", st, opens.Load(), closes.Load())
	}
}

// TestPolicyIsReplaced while a connection is open.
func TestPolicyIsReplaced(t *testing.T) {
	closed, onClose := closings()
	s := serve(t, &handler{close: onClose}, idle.Policy{IdleTimeout: time.Hour}, nil, tcp())
	client := dial(t, s.address)
	exchange(t, client, "x")
	since := time.Now()
	if err := s.Tracker().SetPolicy(idle.Policy{IdleTimeout: 200 * ms}); err != nil {
		t.Fatal(err)
	}
	end := receive(t, closed)
	if te, ok := end.err.(*idle.TimeoutError); !ok || te.Reason != idle.ReasonIdle || te.Limit != 200*ms {
		t.Errorf("%v", end.err)
	}
	if took := end.at.Sub(since); took > 10*time.Second {
		t.Errorf("after %v", took)
	}
}
