package idlegnet

import (
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/adapters/internal/kernel"
	"github.com/idlewheel/idlewheel/idle"
)

// TestBacklogIsSeenAroundCallbacks: what begins to wait in a callback waits from
// then on, not from the first look of the tracker, and what has gone before it is
// not hidden by what it writes.
func TestBacklogIsSeenAroundCallbacks(t *testing.T) {
	c := &fake{fd: 1 << 20, loop: &fakeLoop{}}
	var writes int
	h := booted(t, &handler{
		greeting: make([]byte, 10),
		traffic:  func(gnet.Conn) gnet.Action { c.out += writes; return gnet.None },
	}, idle.Policy{WriteTimeout: time.Minute}, &Options{
		OnTimeout: func(gnet.Conn, *idle.TimeoutError) bool { c.in = 0; c.out++; return true },
		Ping:      func(gnet.Conn) error { c.out++; return nil },
		OnDrain:   func(gnet.Conn) { c.out++ },
	})
	phase, err := h.Phase(idle.Policy{WriteTimeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	h.OnOpen(c)
	s := h.table.get(c)
	owner := (*Conn)(s)
	var last *backlog
	for _, step := range []struct {
		name       string
		do         func()
		left, gone int // bytes
	}{
		{"what OnOpen returned", func() {}, 10, 0},
		{"when it is gone", func() { h.OnTraffic(c) }, 0, 0},
		{"what OnTraffic wrote", func() { writes = 100; h.OnTraffic(c) }, 100, 0},
		{"as much as was gone before", func() { c.in, c.out, writes = 7, 60, 40; h.OnTraffic(c) }, 100, 40},
		{"what OnTimeout wrote", func() { h.hooks.OnTimeout(owner, &idle.TimeoutError{Reason: idle.ReasonIdle}) }, 101, 40},
		{"what Ping wrote", func() { h.hooks.Ping(owner) }, 102, 40},
		{"what OnDrain wrote", func() { h.hooks.OnDrain(owner) }, 103, 40},
		{"what waits as a phase is entered", func() { last = s.rare.backlog; owner.Enter(phase) }, 103, 0}, // begins to wait then, by its limits
	} {
		step.do()
		b := s.rare.backlog
		if (b == nil) != (step.left == 0) || b != nil && (b.held != step.left || b.sent != step.gone) {
			t.Errorf("%s: %+v, want %d left and %d gone", step.name, b, step.left, step.gone)
		}
	}
	if s.rare.inbound != 0 || s.rare.backlog == last {
		t.Errorf("OnTimeout left %d bytes; in the next phase the backlog is %+v", s.rare.inbound, s.rare.backlog)
	}
	h.OnClose(c, nil)
	s.afterCallback() // of a callback that has closed it
	if h.table.get(c) != nil || !s.closed() {
		t.Error("it is not forgotten")
	}
}

// TestProgress: what the kernel tells about a backlog is told on once.
func TestProgress(t *testing.T) {
	h := booted(t, &handler{}, idle.Policy{WriteTimeout: time.Minute}, nil)
	s := &conn{loop: &loop{run: &run{}}, rare: &rare{phase: h.Tracker().Initial(), backlog: &backlog{}}}
	progress := func(r kernel.Report) (e idle.SocketState) { s.addProgress(&e, r); return e }
	for _, acked := range []uint64{5, 10} { // TCP
		if p := progress(kernel.Report{Out: 1, Acked: acked, AckedKnown: true}); p.Unreported != 5 {
			t.Errorf("up to %d: %+v", acked, p)
		}
	}
	s.rare.backlog = &backlog{kernelQueue: 5, sent: 3, grew: true, stillProbes: 2, probed: true} // a Unix socket
	if p := progress(kernel.Report{Queued: 7}); p.Unreported != 1 || p.Out != 1 || !p.NotWriting {
		t.Errorf("the queue has changed, and the backlog has grown: %+v", p)
	}
	if p := progress(kernel.Report{Queued: 9}); p.Unreported != 0 || p.Out != 1 || p.NotWriting {
		t.Errorf("the queue has changed: %+v", p)
	}
	for range maxStillProbes {
		if p := progress(kernel.Report{Queued: 9}); p.Out != 0 || p.Doubt <= 0 || p.Doubt >= time.Minute {
			t.Errorf("the queue may have changed: %+v", p)
		}
	}
	if p := progress(kernel.Report{Queued: 9}); p.Out != 0 || p.Doubt != 0 {
		t.Errorf("the queue is as it was: %+v", p)
	}
	s.rare.backlog.held, s.rare.backlog.hasTimes = 5, true
	s.updateBacklog(3)
	if p := progress(kernel.Report{Queued: 9}); p.Unreported != 2 || p.Doubt <= 0 {
		t.Errorf("the backlog has shrunk: %+v", p)
	}
	s.updateBacklog(4)
	if p := progress(kernel.Report{Queued: 8}); p.Unreported != 1 || !p.NotWriting {
		t.Errorf("the backlog has grown, and the queue has changed: %+v", p)
	}
	e := idle.SocketState{OutEmpty: true}
	if s.addProgress(&e, kernel.Report{Queued: 8}); e.OutEmpty {
		t.Error("the kernel holds nothing back, but gnet does: OutEmpty")
	}
	s.rare.backlog = nil
	if p := progress(kernel.Report{}); !p.NotWriting {
		t.Errorf("nothing waits: %+v", p)
	}
}
