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
	c := &lone{fake: fake{fd: 1 << 20}}
	var writes int
	h := wrap(t, &handler{
		open:    func(gnet.Conn) ([]byte, gnet.Action) { return make([]byte, 10), gnet.None },
		traffic: func(gnet.Conn) gnet.Action { c.out += writes; return gnet.None },
	}, idle.Policy{WriteTimeout: time.Minute}, &Options{
		OnTimeout: func(gnet.Conn, *idle.TimeoutError) bool { c.in = 0; c.out++; return true },
		Ping:      func(gnet.Conn) error { c.out++; return nil },
		OnDrain:   func(gnet.Conn) { c.out++ },
	})
	h.OnBoot(gnet.Engine{})
	defer h.OnShutdown(gnet.Engine{})
	want := func(when string, left, gone int) {
		t.Helper()
		switch b := h.table.get(c).rare.backlog; {
		case left == 0 && b != nil:
			t.Errorf("%s: %d held", when, b.held)
		case left > 0 && (b == nil || b.held != left || b.sent != gone):
			t.Errorf("%s: %+v, want %d left and %d gone", when, b, left, gone)
		}
	}
	h.OnOpen(c)
	want("what OnOpen returned", 10, 0)
	h.OnTraffic(c)
	want("when it is gone", 0, 0)
	writes = 100
	h.OnTraffic(c)
	want("what OnTraffic wrote", 100, 0)
	c.in, c.out, writes = 7, 60, 40
	h.OnTraffic(c)
	want("as much as was gone before", 100, 40)

	// The callbacks of a pass.
	track := h.table.get(c)
	h.hooks.OnTimeout((*Conn)(track), &idle.TimeoutError{Reason: idle.ReasonIdle})
	want("what OnTimeout wrote", 101, 40)
	if track.rare.inbound != 0 {
		t.Errorf("OnTimeout left %d bytes", track.rare.inbound)
	}
	h.hooks.Ping((*Conn)(track))
	want("what Ping wrote", 102, 40)
	h.hooks.OnDrain((*Conn)(track))
	want("what OnDrain wrote", 103, 40)

	// What waits as a phase is entered begins to wait then, by its limits.
	before := track.rare.backlog
	phase, err := h.Phase(idle.Policy{WriteTimeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	h.Conn(c).Enter(phase)
	want("in the next phase", 103, 0)
	if track.rare.backlog == before {
		t.Errorf("in the next phase: %+v", track.rare.backlog)
	}
	h.OnClose(c, nil)
	track.afterCallback() // of a callback that has closed it
	if h.table.get(c) != nil || !track.closed() {
		t.Error("it is not forgotten")
	}
}

// TestProgress: what the kernel tells about a backlog is told on once.
func TestProgress(t *testing.T) {
	h := wrap(t, &handler{}, idle.Policy{WriteTimeout: time.Minute}, nil)
	h.OnBoot(gnet.Engine{})
	defer h.OnShutdown(gnet.Engine{})
	phase, err := h.Phase(idle.Policy{WriteTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	s := &conn{loop: &loop{run: &run{}}, rare: &rare{phase: phase, backlog: &backlog{}}}
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
