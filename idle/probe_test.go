package idle

import (
	"fmt"
	"testing"
	"time"
)

func unreadInput() SocketState { return SocketState{Unread: true, In: 1} }

// TestUnreadInputCountsOnce for the limits that bytes restart. A server that doesn't read has the limit once more.
func TestUnreadInputCountsOnce(t *testing.T) {
	for reason, policy := range map[Reason]Policy{
		ReasonIdle:      {IdleTimeout: time.Second},
		ReasonRead:      {ReadTimeout: time.Second},
		ReasonHeartbeat: {Heartbeat: Heartbeat{Interval: 500 * time.Millisecond, Timeout: 500 * time.Millisecond}},
	} {
		t.Run(reason.String(), func(t *testing.T) {
			onBoth(t, policy, nil, func(r *rig) {
				p, born := r.with(&peer{ping: unansweredPing, probe: unreadInput}), time.Now()
				r.lives(p, time.Second+2*r.late())
				if p.probes != 1 {
					r.Errorf("probed %d times", p.probes)
				}
				r.wait(time.Until(born.Add(2*time.Second + 3*r.late())))
				if age := p.at.Sub(born); len(p.expired) != 1 || p.expired[0].Reason != reason || age < 2*time.Second-2*r.opts.Tick || p.probes != 2 {
					r.Errorf("ended after %v by %v, probed %d times", age, p.expired, p.probes)
				}
			})
		})
	}
}

// TestUnreadInputPutsOff the limits that bytes don't restart by five ticks. That's so if the server doesn't read, and if it
// reads all the time and the peer trickles.
func TestUnreadInputPutsOff(t *testing.T) {
	const limit = time.Second
	for reason, policy := range map[Reason]Policy{
		ReasonIdle:        {IdleTimeout: limit, ExplicitUse: true},
		ReasonPhase:       {PhaseTimeout: limit},
		ReasonHeartbeat:   {Heartbeat: Heartbeat{Interval: limit, Passive: true}},
		ReasonMinReadRate: {MinReadRate: Rate{1e6, limit}},
	} {
		for _, reads := range []bool{false, true} {
			t.Run(fmt.Sprint(reason, " reads ", reads), func(t *testing.T) {
				onBoth(t, policy, nil, func(r *rig) {
					for range 5 {
						r.wait(odd)
						p, born := r.prober(unreadInput), time.Now()
						p.measure()
						for time.Since(born) < limit+20*r.opts.Tick {
							if r.wait(time.Millisecond); reads {
								r.do(func() { p.Received(1); p.PauseRead(); p.AwaitRead() })
							}
						}
						most := limit + unreadTicks*r.opts.Tick + r.late()
						if reason == ReasonMinReadRate && reads {
							most += 2 * time.Millisecond // what these bytes pay for
						}
						if age := p.at.Sub(born); len(p.expired) != 1 || p.expired[0].Reason != reason || age < limit+unreadTicks*r.opts.Tick || age > most {
							r.Errorf("ended after %v by %v; want at most %v", age, p.expired, most)
						}
					}
				})
			})
		}
	}
}

// TestInputInTimeIsReadAfterTheLimit: the server reads the rest of a header that has come in time a little after the
// limit, as on a busy machine.
func TestInputInTimeIsReadAfterTheLimit(t *testing.T) {
	for name, test := range map[string]struct {
		policy Policy
		read   func(*peer)
	}{
		"phase": {Policy{PhaseTimeout: time.Second}, func(*peer) {}},
		"beat":  {Policy{Heartbeat: Heartbeat{Interval: time.Second, Passive: true}}, func(p *peer) { p.Beat() }},
		"rate":  {Policy{MinReadRate: Rate{1, time.Second}}, func(p *peer) { p.PauseRead() }},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, test.policy, nil, func(r *rig) {
				next := r.phaseOf(Policy{Name: "next", IdleTimeout: 10 * time.Second})
				p := r.prober(unreadInput)
				for p.probes == 0 {
					r.wait(time.Millisecond)
				}
				r.wait((unreadTicks - 1) * r.opts.Tick)
				r.do(func() { p.Received(100); test.read(p) })
				if name == "phase" {
					r.do(func() { p.Enter(next) })
				}
				r.lives(p, 900*time.Millisecond)
			})
		})
	}
}

// TestAnswersReadLate has a server that works for longer than a ping may wait for its answer. The answer lies unread
// meanwhile.
func TestAnswersReadLate(t *testing.T) {
	beat := Heartbeat{Interval: 500 * time.Millisecond, Timeout: 250 * time.Millisecond}
	onBoth(t, Policy{Heartbeat: beat}, nil, func(r *rig) {
		unread := false
		p := r.with(&peer{ping: func() error { unread = true; return nil }, probe: func() SocketState { return SocketState{Unread: unread} }})
		for range 20 {
			r.lives(p, 1200*time.Millisecond)
			r.do(func() { unread = false; p.Received(1) })
		}
	})
}

// TestUnreadInputChangesNoAccount has one byte unread when a limit of writing passes. What is told of the idle time is true all the
// same. Only the heartbeat counts from there, as from input.
func TestUnreadInputChangesNoAccount(t *testing.T) {
	policy := Policy{WriteTimeout: time.Second, Heartbeat: Heartbeat{Interval: 1500 * time.Millisecond, Timeout: time.Second}}
	onBoth(t, policy, nil, func(r *rig) {
		r.RecentEnds()
		p := r.with(&peer{ping: unansweredPing, probe: unreadInput, keep: func(*TimeoutError) bool { return true }})
		near := func(what string, got time.Duration) {
			r.Helper()
			if want := time.Since(p.born); got > want || got < want-2*r.late() || p.probes == 0 {
				r.Errorf("%s is %v, want %v; probed %d times", what, got, want, p.probes)
			}
		}
		r.do(p.AwaitWrite)
		r.wait(1400 * time.Millisecond)
		r.do(func() { near("Conn.Idle", p.Idle()) })
		near("Info.Idle", r.infos()[p].Idle)
		r.wait(1600 * time.Millisecond)
		want := 2500 * time.Millisecond
		if len(p.pings) != 1 || p.pings[0] < want-2*r.opts.Tick || p.pings[0] > want+r.late() {
			r.Errorf("pinged after %v, want %v", p.pings, want)
		}
		r.do(func() { p.Stop() })
		near("End.Idle", r.RecentEnds()[0].Idle)
	})
}

// TestUnreadInputAvertsAgainAfterAReadAtOnce reads in the very tick of the probe.
func TestUnreadInputAvertsAgainAfterAReadAtOnce(t *testing.T) {
	const limit = 300 * time.Millisecond // less than it takes for the clock to sleep
	onBoth(t, Policy{IdleTimeout: limit}, nil, func(r *rig) {
		p := r.prober(unreadInput)
		for p.probes == 0 {
			r.wait(time.Millisecond)
		}
		r.do(func() { p.Received(1) })
		since := time.Now()
		r.lives(p, 3*limit/2)
		r.dies(p, since, 2*limit-r.opts.Tick, ReasonIdle) // from the tick before the probe's
	})
}

func TestUnreadInputDoesNotExcuseAWriterOrTheAge(t *testing.T) {
	onBoth(t, Policy{WriteTimeout: time.Second}, nil, func(r *rig) {
		p := r.prober(unreadInput)
		r.do(p.AwaitWrite)
		r.dies(p, time.Now(), time.Second, ReasonWrite)
	})
	onBoth(t, Policy{MaxAge: time.Second}, nil, func(r *rig) {
		p := r.prober(func() SocketState { return SocketState{Unread: true, In: 1, Out: 1} })
		r.dies(p, time.Now(), time.Second, ReasonMaxAge)
		if p.probes != 0 {
			r.Errorf("Probe was called %d times", p.probes)
		}
	})
}

// TestProbedAgesMoveDeadlines has bytes come and go unreported.
func TestProbedAgesMoveDeadlines(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		born := time.Now()
		last := born.Add(600*time.Millisecond + odd)
		p := r.prober(func() SocketState { return SocketState{In: time.Since(last)} })
		r.dies(p, last, time.Second, ReasonIdle)
	})
	onBoth(t, Policy{WriteTimeout: time.Second}, nil, func(r *rig) {
		last := time.Now().Add(700*time.Millisecond + odd)
		p := r.prober(func() SocketState { return SocketState{Out: time.Since(last)} })
		r.do(p.AwaitWrite)
		r.dies(p, last, time.Second, ReasonWrite)
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
		r.lives(p, 3*time.Second)
		r.wait(2 * time.Second)
		if len(p.expired) != 1 || n != 4 {
			r.Errorf("probed %d times, timed out: %v", n, p.expired)
		}
	})
}

// TestDrainedInAPauseIsPaidForOnce has the owner report in a long pause that nothing waits. The pause isn't paid for a
// second time when it ends: then the next write could wait for as long.
func TestDrainedInAPauseIsPaidForOnce(t *testing.T) {
	policy := Policy{IdleTimeout: 10 * time.Minute, MinWriteRate: Rate{BytesPerSecond: 1000, Grace: 10 * time.Second}}
	onBoth(t, policy, nil, func(r *rig) {
		p := r.prober(func() SocketState { return SocketState{OutEmpty: true, In: time.Second} })
		r.lives(p, 15*time.Minute)
		if p.probes == 0 {
			r.Error("not probed")
		}
		p.probe = func() SocketState { return SocketState{} }
		r.do(p.AwaitWrite)
		r.dies(p, time.Now(), 10*time.Second, ReasonMinWriteRate)
	})
}

// TestDrainedIsNoActivity has nothing to go out, which is no news when nothing
// moves at all.
func TestDrainedIsNoActivity(t *testing.T) {
	for reason, policy := range map[Reason]Policy{ReasonIdle: {IdleTimeout: time.Second}, ReasonRead: {ReadTimeout: time.Second}} {
		onBoth(t, policy, nil, func(r *rig) {
			p := r.prober(func() SocketState { return SocketState{OutEmpty: true} })
			r.dies(p, time.Now(), time.Second, reason)
		})
	}
}

// TestUnreportedBytesCountOnce has one Write, or one Read, go on and on, at half or at twice
// the least speed. What the kernel took of it, or has of it, is reported when it ends.
func TestUnreportedBytesCountOnce(t *testing.T) {
	rate := Rate{BytesPerSecond: 1000, Grace: time.Second}
	t.Run("out", func(t *testing.T) {
		testUnreported(t, Policy{MinWriteRate: rate}, (*Conn).AwaitWrite, func(n int) SocketState { return SocketState{Unreported: n} })
	})
	t.Run("in", func(t *testing.T) {
		testUnreported(t, Policy{MinReadRate: rate}, (*Conn).AwaitRead, func(n int) SocketState { return SocketState{UnreportedIn: n} })
	})
}

func testUnreported(t *testing.T, policy Policy, await func(*Conn), unreported func(n int) SocketState) {
	run := func(speed float64, test func(*rig, *peer)) {
		onBoth(t, policy, nil, func(r *rig) {
			born, told := time.Now(), 0
			p := r.prober(func() SocketState {
				taken := int(time.Since(born).Seconds() * speed)
				n := taken - told
				told = taken
				return unreported(n)
			})
			p.measure()
			r.do(func() { await(&p.Conn) })
			test(r, p)
		})
	}
	run(500, func(r *rig, p *peer) {
		born := time.Now()
		r.wait(time.Minute)
		if age := p.at.Sub(born); len(p.expired) != 1 || age < 2*time.Second || age > 2*time.Second+4*r.late() {
			r.Errorf("at half the least speed, a second of grace is used up in two: timed out after %v by %v", age, p.expired)
		}
	})
	run(2000, func(r *rig, p *peer) {
		r.lives(p, time.Minute)
		p.probe = func() SocketState { return SocketState{} }
		ended := time.Now()
		r.wait(2 * time.Minute)
		// Of two minutes' worth, probes found at least a part, in a minute.
		if lived := p.at.Sub(ended); len(p.expired) != 1 || lived > 61*time.Second+4*r.late() {
			r.Errorf("lived %v on, by %v", lived, p.expired)
		}
	})
}
