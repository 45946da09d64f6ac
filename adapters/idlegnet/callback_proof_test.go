//go:build proof

package idlegnet

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/idle"
)

// TestHeartbeat has a client that answers pings for a while.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	const interval, timeout = 50 * ms, 300 * ms
	closed, onClose := closings()
	policy := idle.Policy{Heartbeat: idle.Heartbeat{Interval: interval, Timeout: timeout, Misses: 2}}
	ping := func(c gnet.Conn) error { _, err := c.Write([]byte{'?'}); return err }
	inTime := intime.Of(t, timeout/4)
	s := serve(t, &handler{close: onClose, traffic: func(c gnet.Conn) gnet.Action {
		c.Discard(-1)
		return gnet.None
	}}, policy, &Options{Ping: ping}, tcp())
	nc := dial(t, s.address)
	var last time.Time
	b := make([]byte, 1)
	for range 10 {
		if _, err := nc.Read(b); err != nil || b[0] != '?' {
			inTime.Fatalf("no ping but %q, %v", b, err)
		}
		last = time.Now()
		nc.Write([]byte{'!'})
	}
	pings, err := io.ReadAll(nc)
	if err != nil || len(pings) != 2 {
		inTime.Errorf("unanswered pings: %q, %v", pings, err)
	}
	expectTimeout(t, receive(t, closed), idle.ReasonHeartbeat, last, interval+2*timeout)
	if st := s.Stats(); st.Pings != 12 || st.Misses != 2 {
		inTime.Errorf("%d pings and %d misses were counted", st.Pings, st.Misses)
	}
}

// TestExplicitUse has a client that answers pings, and sends one message. Only that is use.
func TestExplicitUse(t *testing.T) {
	const interval, limit = 50 * ms, 600 * ms
	closed, onClose := closings()
	used := make(chan time.Time, 1)
	var wrapped *Handler
	h := &handler{close: onClose, traffic: func(c gnet.Conn) gnet.Action {
		if b, _ := c.Next(-1); bytes.IndexByte(b, 'm') >= 0 {
			used <- time.Now()
			wrapped.Conn(c).Use()
		}
		return gnet.None
	}}
	wrapped = wrap(t, h, idle.Policy{
		IdleTimeout: limit, ExplicitUse: true, Heartbeat: idle.Heartbeat{Interval: interval, Timeout: time.Minute},
	}, &Options{Ping: func(c gnet.Conn) error { _, err := c.Write([]byte{'?'}); return err }})
	nc := dial(t, start(t, h, wrapped, tcp(), nil).address)
	time.AfterFunc(limit/2, func() { nc.Write([]byte{'m'}) })
	for b := make([]byte, 1); ; nc.Write([]byte{'!'}) {
		if _, err := nc.Read(b); err != nil {
			break
		}
	}
	expectTimeout(t, receive(t, closed), idle.ReasonIdle, <-used, limit)
}

// TestPingThatCloses closes the connection inside Ping.
func TestPingThatCloses(t *testing.T) {
	closed, onClose := closings()
	s := serve(t, &handler{close: onClose}, idle.Policy{Heartbeat: idle.Heartbeat{Interval: 20 * ms, Timeout: 20 * ms}}, &Options{
		Ping: func(c gnet.Conn) error { return c.EventLoop().Close(c) },
	}, tcp())
	dial(t, s.address)
	if got := receive(t, closed); got.err != nil {
		t.Error("OnClose got ", got.err)
	}
}

// TestOnTimeout keeps a connection twice.
func TestOnTimeout(t *testing.T) {
	const limit = 50 * ms
	closed, onClose := closings()
	asked := 0
	s := serve(t, &handler{close: onClose}, idle.Policy{IdleTimeout: limit}, &Options{
		OnTimeout: func(c gnet.Conn, err *idle.TimeoutError) bool {
			asked++
			c.Write([]byte{'?'})
			return asked < 3
		},
	}, tcp())
	begun := time.Now()
	nc := dial(t, s.address)
	expectTimeout(t, receive(t, closed), idle.ReasonIdle, begun, limit)
	if got, _ := io.ReadAll(nc); string(got) != "???" {
		t.Errorf("the client was told %q", got)
	}
	if passed := time.Since(begun); passed < 3*limit || asked != 3 {
		t.Errorf("asked %d times, closed after %v", asked, passed)
	}
}

// TestFarewellIsNoSignOfLife: a refusal is final, even if OnTimeout has written
// something, and has taken so long that the limit is looked at anew.
func TestFarewellIsNoSignOfLife(t *testing.T) {
	const limit = 300 * ms
	closed, onClose := closings()
	asked := 0
	s := serve(t, &handler{close: onClose}, idle.Policy{IdleTimeout: limit}, &Options{
		OnTimeout: func(c gnet.Conn, err *idle.TimeoutError) bool {
			asked++
			c.Write([]byte("bye"))
			time.Sleep(limit / 3)
			return false
		},
	}, tcp())
	begun := time.Now()
	nc := dial(t, s.address)
	expectTimeout(t, receive(t, closed), idle.ReasonIdle, begun, limit)
	if got, _ := io.ReadAll(nc); string(got) != "bye" || asked != 1 {
		t.Errorf("asked %d times, and the client was told %q", asked, got)
	}
}

// TestInputDuringOnTimeout: input that arrives while OnTimeout runs keeps the
// connection, even if OnTimeout then returns false.
func TestInputDuringOnTimeout(t *testing.T) {
	const limit = 500 * ms
	closed, onClose := closings()
	asked, client := 0, make(chan net.Conn, 1)
	s := serve(t, &handler{close: onClose}, idle.Policy{IdleTimeout: limit}, &Options{
		OnTimeout: func(gnet.Conn, *idle.TimeoutError) bool {
			if asked++; asked == 1 {
				time.Sleep(limit / 4)
				(<-client).Write([]byte("x"))
			}
			return false
		},
	}, tcp())
	begun := time.Now()
	nc := dial(t, s.address)
	client <- nc
	expectTimeout(t, receive(t, closed), idle.ReasonIdle, begun, limit)
	if got, _ := io.ReadAll(nc); string(got) != "x" || asked != 2 {
		t.Errorf("asked %d times, and the client got the echo %q", asked, got)
	}
}

// TestOnTimeoutThatCloses closes the connection while asked whether to keep it.
func TestOnTimeoutThatCloses(t *testing.T) {
	closed, onClose := closings()
	s := serve(t, &handler{close: onClose}, idle.Policy{IdleTimeout: 50 * ms}, &Options{
		OnTimeout: func(c gnet.Conn, err *idle.TimeoutError) bool {
			c.EventLoop().Close(c)
			return false
		},
	}, tcp())
	dial(t, s.address)
	if got := receive(t, closed); got.err != nil {
		t.Error("a connection that the user closed was closed for ", got.err)
	}
	if st := s.Stats(); st.Closed != 1 || len(st.TimedOut) != 0 {
		t.Errorf("it was counted as %+v", st)
	}
}

func TestOnDrainAtMaxAge(t *testing.T) {
	const age, grace = 50 * ms, 100 * ms
	closed, onClose := closings()
	drained := make(chan time.Time, 1)
	s := serve(t, &handler{close: onClose}, idle.Policy{MaxAge: age, MaxAgeGrace: grace}, &Options{
		OnDrain:   func(c gnet.Conn) { drained <- time.Now(); c.Write([]byte("finish")) },
		OnTimeout: func(gnet.Conn, *idle.TimeoutError) bool { t.Error("OnTimeout is asked"); return true },
	}, tcp())
	begun := time.Now()
	nc := dial(t, s.address)
	if got, _ := io.ReadAll(nc); string(got) != "finish" {
		t.Errorf("the client was told %q", got)
	}
	at := receive(t, drained)
	if at.Sub(begun) < age {
		t.Error("drained early")
	}
	expectTimeout(t, receive(t, closed), idle.ReasonMaxAge, begun.Add(grace), age)
}

// TestPanicInPing is survived, and is a miss.
func TestPanicInPing(t *testing.T) {
	s := serve(t, &handler{}, idle.Policy{Heartbeat: idle.Heartbeat{Interval: 20 * ms, Timeout: 20 * ms}}, &Options{
		Ping: func(c gnet.Conn) error { panic("in Ping") },
		Idle: idle.Options{Logger: quiet()},
	}, tcp())
	nc := dial(t, s.address)
	if _, err := nc.Read(make([]byte, 1)); err != io.EOF {
		t.Error(err)
	}
	if st := s.Stats(); st.Panics == 0 {
		t.Error("the panic was not counted")
	}
}
