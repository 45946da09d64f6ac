package idle

import (
	"sync/atomic"
	"testing"
	"time"
)

// A prober looks into the kernel.
type prober struct {
	peer
	probes int
	probe  func() SocketState
}

func (p *prober) Examine() SocketState { p.probes++; return p.probe() }

func (r *rig) prober(probe func() SocketState) *prober {
	p := &prober{probe: probe}
	r.track(&p.Conn, p)
	return p
}

// TestUnreadInputAvertsOnce covers all reasons that are about reading. The input may be a beat,
// which puts the limit of beats off by a few ticks only.
func TestUnreadInputAvertsOnce(t *testing.T) {
	for reason, test := range map[Reason]struct {
		policy Policy
		off    time.Duration
	}{
		ReasonIdle:        {Policy{IdleTimeout: time.Second}, time.Second},
		ReasonRead:        {Policy{ReadTimeout: time.Second}, time.Second},
		ReasonHeartbeat:   {Policy{Heartbeat: Heartbeat{Interval: time.Second, Passive: true}}, 0},
		ReasonMinReadRate: {Policy{MinReadRate: Rate{1, time.Second}}, time.Second},
	} {
		t.Run(reason.String(), func(t *testing.T) {
			onBoth(t, test.policy, nil, func(r *rig) {
				p := r.prober(func() SocketState { return SocketState{Unread: true} })
				if born, off := time.Now(), test.off; off > 0 {
					r.lives(&p.peer, time.Second+r.late())
					r.dies(&p.peer, born, time.Second+off, reason)
				} else {
					r.lives(&p.peer, time.Second+beatPatience*r.opts.Tick)
					r.dies(&p.peer, born.Add(beatPatience*r.opts.Tick), time.Second, reason)
				}
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
		p := r.prober(func() SocketState { return SocketState{Unread: true} })
		r.lives(&p.peer, time.Second+r.late())
		for range 5 {
			r.do(func() { p.Received(1) })
			r.lives(&p.peer, time.Second+r.late())
		}
		r.lives(&p.peer, 900*time.Millisecond)
		r.dies(&p.peer, time.Now().Add(-900*time.Millisecond-r.late()), time.Second, ReasonIdle)
	})
}

// TestUnreadInputAvertsAgainInAnotherPhase is the owner that does not read yet.
func TestUnreadInputAvertsAgainInAnotherPhase(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		p := r.prober(func() SocketState { return SocketState{Unread: true} })
		r.lives(&p.peer, 1500*time.Millisecond)
		r.do(func() { p.Enter(r.Tracker.phase) })
		since := time.Now()
		r.lives(&p.peer, 1500*time.Millisecond)
		r.dies(&p.peer, since, 2*time.Second, ReasonIdle)
	})
}

// TestUnreadInputAvertsAgainAfterAReadAtOnce reads in the very tick of the probe.
func TestUnreadInputAvertsAgainAfterAReadAtOnce(t *testing.T) {
	const limit = 300 * time.Millisecond // less than it takes for the clock to sleep
	onBoth(t, Policy{IdleTimeout: limit}, nil, func(r *rig) {
		p := r.prober(func() SocketState { return SocketState{Unread: true} })
		for p.probes == 0 {
			r.wait(time.Millisecond)
		}
		r.do(func() { p.Received(1) })
		since := time.Now()
		r.lives(&p.peer, 3*limit/2)
		r.dies(&p.peer, since, 2*limit-r.opts.Tick, ReasonIdle) // from the tick before the probe's
	})
}

// TestFreshInputAvertsAgainAfterAReadAtOnce is the same with input that came in the
// tick in which it is read, as a driver finds that is a little late. The read must be
// seen all the same: it takes the grant back, so the next input averts again.
func TestFreshInputAvertsAgainAfterAReadAtOnce(t *testing.T) {
	const limit = 300 * time.Millisecond // less than it takes for the clock to sleep
	onBoth(t, Policy{IdleTimeout: limit}, nil, func(r *rig) {
		p := r.prober(nil)
		p.probe = func() SocketState {
			if p.probes > 1 {
				return SocketState{Unread: true}
			}
			time.Sleep(time.Millisecond)
			return SocketState{Unread: true, In: time.Nanosecond}
		}
		for p.Conn.state.Load()&granted == 0 {
			r.wait(time.Millisecond)
		}
		r.do(func() { p.Received(1) })
		r.lives(&p.peer, 3*limit/2)
	})
}

// TestUnreadInputAvertsATotalOnce has input that waits for long, or for nobody
// knows how long: the owner was slow, not the peer. The second time it is not.
func TestUnreadInputAvertsATotalOnce(t *testing.T) {
	for _, in := range []time.Duration{0, 100 * time.Millisecond} {
		onBoth(t, Policy{ReadTotal: time.Second}, nil, func(r *rig) {
			p := r.prober(func() SocketState { return SocketState{Unread: true, In: in} })
			r.dies(&p.peer, time.Now(), 2*time.Second, ReasonReadTotal)
		})
	}
}

// TestFreshInputIsNoMatterForATotal has a total that is kept: the input that is
// found then has come just now, and so has not been an excuse for anything.
func TestFreshInputIsNoMatterForATotal(t *testing.T) {
	policy := Policy{ReadTotal: time.Second, IdleTimeout: 1500 * time.Millisecond}
	onBoth(t, policy, nil, func(r *rig) {
		p := &keepingProber{}
		p.probe = func() SocketState { return SocketState{Unread: true, In: time.Nanosecond} }
		r.track(&p.Conn, p)
		r.wait(10 * time.Second)
		for _, err := range p.expired {
			r.Fatalf("expired by %v; what was read at once is activity to IdleTimeout, and the total is kept", err)
		}
		if r.Stats().Extended < 9 {
			r.Errorf("kept %d times: the input was an excuse", r.Stats().Extended)
		}
	})
}

// TestInputInTimeIsReadBeforeATotalEnds has input arrive just before the limit, and
// the owner read it just after: a busy machine is a tick late.
func TestInputInTimeIsReadBeforeATotalEnds(t *testing.T) {
	onBoth(t, Policy{ReadTotal: time.Second}, nil, func(r *rig) {
		next := r.phaseOf(Policy{Name: "next", IdleTimeout: 10 * time.Second})
		const before = 5 * time.Millisecond
		p := r.prober(func() SocketState { return SocketState{Unread: true, In: before} })
		for p.probes == 0 {
			r.wait(time.Millisecond)
		}
		r.do(func() { p.Received(100); p.Enter(next) })
		r.lives(&p.peer, 5*time.Second)
	})
}

// TestATrickleExtendsATotalByATick has input arrive all the time.
func TestATrickleExtendsATotalByATick(t *testing.T) {
	onBoth(t, Policy{ReadTotal: time.Second}, nil, func(r *rig) {
		p := r.prober(func() SocketState { return SocketState{Unread: true, In: time.Nanosecond} })
		since := time.Now()
		r.wait(time.Second + r.late() + r.opts.Tick)
		if len(p.expired) != 1 || p.at.Sub(since) > time.Second+r.late()+r.opts.Tick {
			r.Errorf("expired by %v after %v", p.expired, p.at.Sub(since))
		}
	})
}

// TestFreshInputBuysAMinRateNoGrace: it has only to be read, and pays for itself
// then.
func TestFreshInputBuysAMinRateNoGrace(t *testing.T) {
	const grace = 2 * time.Second
	onBoth(t, Policy{MinReadRate: Rate{100, grace}}, nil, func(r *rig) {
		var asked atomic.Int64
		p := r.prober(func() SocketState { return SocketState{Unread: asked.Add(1) == 1, In: time.Nanosecond} })
		r.wait(grace + 25*time.Millisecond)
		if asked.Load() == 0 || len(p.expired) > 0 {
			r.Fatalf("asked %d times, and expired by %v: input that may be all that was owed has to be let in", asked.Load(), p.expired)
		}
		r.wait(50 * time.Millisecond)
		if len(p.expired) != 1 || p.expired[0].Reason != ReasonMinReadRate {
			r.Errorf("expired by %v", p.expired)
		}
	})
}

// A keepingProber keeps all totals.
type keepingProber struct{ prober }

func (*keepingProber) OnTimeout(err *TimeoutError) bool { return err.Reason == ReasonReadTotal }

func TestUnreadInputDoesNotExcuseAWriterOrTheAge(t *testing.T) {
	onBoth(t, Policy{WriteTimeout: time.Second}, nil, func(r *rig) {
		p := r.prober(func() SocketState { return SocketState{Unread: true} })
		r.do(p.AwaitWrite)
		r.dies(&p.peer, time.Now(), time.Second, ReasonWrite)
	})
	onBoth(t, Policy{MaxAge: time.Second}, nil, func(r *rig) {
		p := r.prober(func() SocketState { return SocketState{Unread: true, In: 1, Out: 1} })
		r.dies(&p.peer, time.Now(), time.Second, ReasonMaxAge)
	})
}

// TestProbedAgesMoveDeadlines has bytes come and go unreported.
func TestProbedAgesMoveDeadlines(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		born := time.Now()
		last := born.Add(600*time.Millisecond + odd)
		p := r.prober(func() SocketState { return SocketState{In: time.Since(last)} })
		r.dies(&p.peer, last, time.Second, ReasonIdle)
	})
	onBoth(t, Policy{WriteTimeout: time.Second}, nil, func(r *rig) {
		last := time.Now().Add(700*time.Millisecond + odd)
		p := r.prober(func() SocketState { return SocketState{Out: time.Since(last)} })
		r.do(p.AwaitWrite)
		r.dies(&p.peer, last, time.Second, ReasonWrite)
	})
}

// TestProbedAgeIsNeverEarly probes late in a tick, as a pass does that has much
// to do before.
func TestProbedAgeIsNeverEarly(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		var last time.Time
		p := r.prober(func() SocketState {
			if last.IsZero() {
				time.Sleep(9 * time.Millisecond)
				last = time.Now()
			}
			return SocketState{In: time.Since(last) + 1}
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
		p := r.prober(func() SocketState { n++; return SocketState{OutEmpty: n < 4} })
		r.do(p.AwaitWrite)
		r.lives(&p.peer, 3*time.Second)
		r.wait(2 * time.Second)
		if len(p.expired) != 1 || n != 4 {
			r.Errorf("probed %d times, timed out: %v", n, p.expired)
		}
	})
}

// TestDrainedIsNoActivity has nothing to go out, which is no news when nothing
// moves at all.
func TestDrainedIsNoActivity(t *testing.T) {
	for reason, policy := range map[Reason]Policy{ReasonIdle: {IdleTimeout: time.Second}, ReasonRead: {ReadTimeout: time.Second}} {
		onBoth(t, policy, nil, func(r *rig) {
			p := r.prober(func() SocketState { return SocketState{OutEmpty: true} })
			r.dies(&p.peer, time.Now(), time.Second, reason)
		})
	}
}

// TestUnreportedBytesCountOnce has one Write go on and on, at half or at twice
// the least speed. What the kernel took of it is reported when it ends.
func TestUnreportedBytesCountOnce(t *testing.T) {
	policy := Policy{MinWriteRate: Rate{BytesPerSecond: 1000, Grace: time.Second}}
	run := func(speed float64, test func(*rig, *prober)) {
		onBoth(t, policy, nil, func(r *rig) {
			born, told := time.Now(), 0
			p := r.prober(func() SocketState {
				taken := int(time.Since(born).Seconds() * speed)
				unreported := taken - told
				told = taken
				return SocketState{Unreported: unreported}
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
		p.probe = func() SocketState { return SocketState{} }
		ended := time.Now()
		r.wait(2 * time.Minute)
		// Of two minutes' worth, probes found at least a part, in a minute.
		if lived := p.at.Sub(ended); len(p.expired) != 1 || lived > 61*time.Second+4*r.late() {
			r.Errorf("lived %v on, by %v", lived, p.expired)
		}
	})
}
