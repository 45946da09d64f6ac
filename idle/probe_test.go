package idle

import (
	"testing"
	"time"
)

// A prober looks into the kernel.
type prober struct {
	peer
	probes int
	probe  func() Pulse
}

func (p *prober) Probe() Pulse { p.probes++; return p.probe() }

func (r *rig) prober(probe func() Pulse) *prober {
	p := &prober{probe: probe}
	r.track(&p.Conn, p)
	return p
}

// TestUnreadInputAvertsOnce covers all reasons that are about reading.
func TestUnreadInputAvertsOnce(t *testing.T) {
	for reason, policy := range map[Reason]Policy{
		ReasonIdle:        {IdleTimeout: time.Second},
		ReasonRead:        {ReadTimeout: time.Second},
		ReasonHeartbeat:   {Heartbeat: Heartbeat{Interval: time.Second, Passive: true}},
		ReasonMinReadRate: {MinReadRate: Rate{1, time.Second}},
	} {
		t.Run(reason.String(), func(t *testing.T) {
			onBoth(t, policy, nil, func(r *rig) {
				p := r.prober(func() Pulse { return Pulse{Unread: true} })
				born := time.Now()
				r.lives(&p.peer, time.Second+r.late())
				r.dies(&p.peer, born, 2*time.Second, reason)
				if p.probes != 2 {
					r.Errorf("probed %d times", p.probes)
				}
			})
		})
	}
}

// TestUnreadInputAvertsAgainAfterAnActivity is the owner that does read.
func TestUnreadInputAvertsAgainAfterAnActivity(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		p := r.prober(func() Pulse { return Pulse{Unread: true} })
		r.lives(&p.peer, time.Second+r.late())
		for range 5 {
			r.do(func() { p.Received(1) })
			r.lives(&p.peer, time.Second+r.late())
		}
		r.lives(&p.peer, 900*time.Millisecond)
		r.dies(&p.peer, time.Now().Add(-900*time.Millisecond-r.late()), time.Second, ReasonIdle)
	})
}

func TestUnreadInputDoesNotExcuseAWriterOrTheAge(t *testing.T) {
	onBoth(t, Policy{WriteTimeout: time.Second}, nil, func(r *rig) {
		p := r.prober(func() Pulse { return Pulse{Unread: true} })
		r.do(p.AwaitWrite)
		r.dies(&p.peer, time.Now(), time.Second, ReasonWrite)
	})
	onBoth(t, Policy{MaxAge: time.Second}, nil, func(r *rig) {
		p := r.prober(func() Pulse { return Pulse{Unread: true, In: 1, Out: 1} })
		r.dies(&p.peer, time.Now(), time.Second, ReasonMaxAge)
	})
}

// TestProbedAgesMoveDeadlines has bytes come and go unreported.
func TestProbedAgesMoveDeadlines(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		born := time.Now()
		last := born.Add(600*time.Millisecond + odd)
		p := r.prober(func() Pulse { return Pulse{In: time.Since(last)} })
		r.dies(&p.peer, last, time.Second, ReasonIdle)
	})
	onBoth(t, Policy{WriteTimeout: time.Second}, nil, func(r *rig) {
		last := time.Now().Add(700*time.Millisecond + odd)
		p := r.prober(func() Pulse { return Pulse{Out: time.Since(last)} })
		r.do(p.AwaitWrite)
		r.dies(&p.peer, last, time.Second, ReasonWrite)
	})
}

// TestProbedAgeIsNeverEarly probes late in a tick, as a pass does that has much
// to do before.
func TestProbedAgeIsNeverEarly(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		var last time.Time
		p := r.prober(func() Pulse {
			if last.IsZero() {
				time.Sleep(9 * time.Millisecond)
				last = time.Now()
			}
			return Pulse{In: time.Since(last) + 1}
		})
		r.wait(time.Minute)
		if lived := p.at.Sub(last); lived < time.Second {
			r.Errorf("timed out %v after bytes had arrived", lived)
		}
	})
}

func TestDrainedIsNoWait(t *testing.T) {
	onBoth(t, Policy{WriteTimeout: time.Second}, nil, func(r *rig) {
		n := 0
		p := r.prober(func() Pulse { n++; return Pulse{Drained: n < 4} })
		r.do(p.AwaitWrite)
		r.lives(&p.peer, 3*time.Second)
		r.wait(2 * time.Second)
		if len(p.expired) != 1 || n != 4 {
			r.Errorf("probed %d times, timed out: %v", n, p.expired)
		}
	})
}

// TestUnreportedBytesCountOnce has one Write go on and on, at half or at twice
// the least speed. What the kernel took of it is reported when it ends.
func TestUnreportedBytesCountOnce(t *testing.T) {
	policy := Policy{MinWriteRate: Rate{BytesPerSecond: 1000, Grace: time.Second}}
	run := func(speed float64, test func(*rig, *prober)) {
		onBoth(t, policy, nil, func(r *rig) {
			born, told := time.Now(), 0
			p := r.prober(func() Pulse {
				taken := int(time.Since(born).Seconds() * speed)
				unreported := taken - told
				told = taken
				return Pulse{Unreported: unreported}
			})
			r.do(p.AwaitWrite)
			test(r, p)
		})
	}
	run(500, func(r *rig, p *prober) {
		born := time.Now()
		r.wait(time.Minute)
		if age := p.at.Sub(born); len(p.expired) != 1 || age < 2*time.Second || age > 2*time.Second+4*r.late() {
			r.Errorf("at half the least speed, a second of grace is used up in two: timed out after %v by %v", age, p.expired)
		}
	})
	run(2000, func(r *rig, p *prober) {
		r.lives(&p.peer, time.Minute)
		p.probe = func() Pulse { return Pulse{} }
		ended := time.Now()
		r.wait(2 * time.Minute)
		// Of two minutes' worth, probes found at least a part, in a minute.
		if lived := p.at.Sub(ended); len(p.expired) != 1 || lived > 61*time.Second+4*r.late() {
			r.Errorf("lived %v on, by %v", lived, p.expired)
		}
	})
}

// A waiter does not report when its waits end.
type waiter struct {
	prober
	read, write bool
}

func (w *waiter) Waiting() (read, write bool) { return w.read, w.write }

func (r *rig) waiter() *waiter {
	w := &waiter{}
	w.probe = func() Pulse { return Pulse{} }
	r.track(&w.Conn, w)
	return w
}

func TestWaiterIsNotTimedOutForAWaitThatEnded(t *testing.T) {
	onBoth(t, Policy{ReadTimeout: time.Second, WriteTimeout: time.Second}, nil, func(r *rig) {
		w := r.waiter()
		r.lives(&w.peer, 10*time.Second+odd)
		r.do(func() { w.read = true; w.BeginRead() })
		r.lives(&w.peer, 900*time.Millisecond)
		r.do(func() { w.read = false; w.Received(1) })
		r.lives(&w.peer, 10*time.Second)
		r.do(func() { w.write = true; w.BeginWrite() })
		r.dies(&w.peer, time.Now(), time.Second, ReasonWrite)
		if w.probes != 1 {
			r.Errorf("probed %d times", w.probes)
		}
	})
}

// TestWaiterOwesNothingBetweenReads reads enough every ten seconds, and lets
// the peer rest in between; it is looked at meanwhile.
func TestWaiterOwesNothingBetweenReads(t *testing.T) {
	onBoth(t, Policy{MinReadRate: Rate{BytesPerSecond: 100, Grace: time.Second}}, nil, func(r *rig) {
		w := r.waiter()
		for range 20 {
			r.do(func() { w.read = true; w.BeginRead() })
			r.lives(&w.peer, 100*time.Millisecond)
			r.do(func() { w.read = false; w.Received(10) })
			r.lives(&w.peer, 10*time.Second)
		}
	})
}

// TestWaiterIsAskedAnewAfterKeep: the write ends while Keep makes up its mind.
func TestWaiterIsAskedAnewAfterKeep(t *testing.T) {
	onDriver(t, Policy{MinWriteRate: Rate{BytesPerSecond: 100, Grace: time.Second}}, nil, func(r *rig) {
		w := &waiterKeeper{}
		r.track(&w.Conn, w)
		w.write = true
		w.BeginWrite()
		r.wait(1500 * time.Millisecond) // Keep is asked by now
		w.write = false
		w.Sent(1)
		r.lives(&w.peer, 10*time.Second)
	})
}

type waiterKeeper struct {
	peer
	write bool
}

func (w *waiterKeeper) Waiting() (read, write bool) { return false, w.write }
func (w *waiterKeeper) Keep(*TimeoutError) bool     { time.Sleep(time.Second); return false }
