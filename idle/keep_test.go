package idle

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"
)

// A keeper is asked before it is timed out.
type keeper struct {
	peer
	asked []Reason
	when  []time.Time
	keep  func(*TimeoutError) bool
}

func (k *keeper) OnTimeout(err *TimeoutError) bool {
	k.asked = append(k.asked, err.Reason)
	k.when = append(k.when, time.Now())
	return k.keep(err)
}

func (*keeper) Ping() error { return nil }

func (r *rig) keeper(keep func(*TimeoutError) bool) *keeper {
	k := &keeper{keep: keep}
	r.track(&k.Conn, k)
	return k
}

// TestKeepIsAskedAgainAFullTimeoutLater does so for every reason but MaxAge, which OnTimeout isn't asked about.
func TestKeepIsAskedAgainAFullTimeoutLater(t *testing.T) {
	const limit = time.Second
	for reason := ReasonIdle; reason < numLimits; reason++ {
		if reason == ReasonMaxAge {
			continue
		}
		t.Run(reason.String(), func(t *testing.T) {
			onBoth(t, limited(Policy{}, reason, limit), nil, func(r *rig) {
				n := 0
				k := r.keeper(func(*TimeoutError) bool { n++; return n < 4 })
				r.do(k.AwaitWrite)
				born, most := time.Now(), limit+r.late()+r.measuring(&k.peer, reason)
				r.wait(10 * limit)
				if !slices.Equal(k.asked, []Reason{reason, reason, reason, reason}) {
					r.Fatalf("asked about %v", k.asked)
				}
				for i, last := 0, born; i < len(k.when); last, i = k.when[i], i+1 {
					if after := k.when[i].Sub(last); after < limit || after > most {
						r.Errorf("asked after %v", after)
					}
					most = limit + r.late()
				}
				if len(k.expired) != 1 || k.expired[0].Reason != reason || k.at != k.when[3] {
					r.Errorf("timed out: %v", k.expired)
				}
				if st := r.Stats(); st.Extended != 3 || st.TimedOut[reason] != 1 {
					r.Errorf("%+v", st)
				}
			})
		})
	}
}

func TestKeepOfAnActiveHeartbeat(t *testing.T) {
	onBoth(t, beats, nil, func(r *rig) {
		n := 0
		k := r.keeper(func(*TimeoutError) bool { n++; return n < 2 })
		r.lives(&k.peer, 15*time.Second)
		r.dies(&k.peer, k.when[0], 14*time.Second+2*r.opts.Tick, ReasonHeartbeat)
	})
}

// TestEveryLimitIsAskedAbout has all limits pass at once. That the owner has
// averted one of them is no answer about the others, which come up in their order.
func TestEveryLimitIsAskedAbout(t *testing.T) {
	const limit = time.Second
	rate, beat := Rate{1, limit + defaultTick}, Heartbeat{Interval: limit, Passive: true} // a rate counts to the ns, so it would pass first
	for _, of := range []struct {
		policy Policy
		want   []Reason
	}{{
		Policy{IdleTimeout: limit, ReadTimeout: limit, MinWriteRate: rate, PhaseTimeout: limit},
		[]Reason{ReasonIdle, ReasonRead, ReasonMinWriteRate, ReasonPhase},
	}, {
		Policy{ReadTimeout: limit, MinReadRate: rate, WriteTimeout: limit, MinWriteRate: rate, Heartbeat: beat},
		[]Reason{ReasonRead, ReasonWrite, ReasonHeartbeat, ReasonMinReadRate, ReasonMinWriteRate},
	}} {
		onBoth(t, of.policy, nil, func(r *rig) {
			k := r.keeper(func(err *TimeoutError) bool { return true })
			k.measure()
			r.do(k.AwaitWrite)
			r.lives(&k.peer, limit+10*r.opts.Tick) // one a tick
			if !slices.Equal(k.asked, of.want) {
				r.Errorf("asked about %v, want %v", k.asked, of.want)
			}
		})
	}
}

// limited returns p with the limit of a reason.
func limited(p Policy, r Reason, limit time.Duration) Policy {
	switch r {
	case ReasonIdle:
		p.IdleTimeout = limit
	case ReasonRead:
		p.ReadTimeout = limit
	case ReasonWrite:
		p.WriteTimeout = limit
	case ReasonMaxAge:
		p.MaxAge = limit
	case ReasonHeartbeat:
		p.Heartbeat = Heartbeat{Interval: limit, Passive: true}
	case ReasonMinReadRate:
		p.MinReadRate = Rate{1, limit}
	case ReasonMinWriteRate:
		p.MinWriteRate = Rate{1, limit}
	case ReasonPhase:
		p.PhaseTimeout = limit
	}
	return p
}

// TestKeepExtendsNoOtherLimit has a limit of 10 s kept each time, and another one of 15 s. That passes at its time. The
// peer moves nothing.
func TestKeepExtendsNoOtherLimit(t *testing.T) {
	for kept := ReasonIdle; kept < numLimits; kept++ {
		for passes := ReasonIdle; passes < numLimits; passes++ {
			if kept == passes || kept == ReasonMaxAge { // which can't be kept
				continue
			}
			t.Run(fmt.Sprint(kept, " ", passes), func(t *testing.T) {
				p := limited(limited(Policy{}, kept, 10*time.Second), passes, 15*time.Second)
				onBoth(t, p, nil, func(r *rig) {
					r.wait(odd)
					k, born := r.keeper(func(err *TimeoutError) bool { return err.Reason == kept }), time.Now()
					k.measure()
					r.do(k.AwaitWrite)
					r.dies(&k.peer, born, 15*time.Second, passes)
					if len(k.asked) == 0 || k.asked[0] != kept {
						r.Errorf("asked about %v", k.asked)
					}
				})
			})
		}
	}
}

// TestActivityDuringKeepAverts lets Keep take its time to answer no.
func TestActivityDuringKeepAverts(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		k := r.keeper(func(*TimeoutError) bool { time.Sleep(time.Second); return false })
		r.lives(&k.peer, 1500*time.Millisecond)
		k.Received(1)
		since := time.Now()
		r.lives(&k.peer, 600*time.Millisecond)
		r.dies(&k.peer, since, 2*time.Second, ReasonIdle) // asked again after one
	})
}

// TestOutputDuringKeepIsNone has OnTimeout write a farewell, of which the kernel tells. An answer
// that took so long that the owner is probed again doesn't make that a sign of life.
func TestOutputDuringKeepIsNone(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		k := &refuser{}
		r.track(&k.Conn, k)
		r.dies(&k.peer, time.Now(), 1500*time.Millisecond, ReasonIdle)
		if k.probes != 2 {
			r.Errorf("probed %d times", k.probes)
		}
	})
}

// A refuser takes half a second to write a farewell in OnTimeout.
type refuser struct {
	peer
	wrote  time.Time
	probes int
}

func (k *refuser) OnTimeout(*TimeoutError) bool {
	time.Sleep(500 * time.Millisecond)
	k.wrote = time.Now()
	return false
}

func (k *refuser) Examine() (e SocketState) {
	if k.probes++; !k.wrote.IsZero() {
		e.Out = time.Since(k.wrote) + 1
	}
	return e
}

func TestCloseDuringKeep(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		k := r.keeper(func(*TimeoutError) bool { time.Sleep(time.Second); return false })
		r.wait(1500 * time.Millisecond)
		if !k.Stop() {
			r.Error("it was live still")
		}
		r.wait(time.Minute)
		if len(k.expired) > 0 {
			r.Errorf("timed out after Close: %v", k.expired)
		}
	})
}

// TestKeepOfAPhaseThatWasLeft has the connection enter a phase with a heartbeat
// while Keep makes up its mind about the limit of the phase before. What it
// answers is no beat; nor does a beat begin a phase anew.
func TestKeepOfAPhaseThatWasLeft(t *testing.T) {
	onDriver(t, Policy{PhaseTimeout: time.Second}, nil, func(r *rig) {
		beaten := r.phaseOf(Policy{Heartbeat: Heartbeat{Interval: 2 * time.Second, Passive: true}})
		k := r.keeper(func(err *TimeoutError) bool { time.Sleep(time.Second); return err.Reason == ReasonPhase })
		r.lives(&k.peer, 1100*time.Millisecond)
		k.Enter(beaten)
		r.dies(&k.peer, time.Now(), 3*time.Second, ReasonHeartbeat) // asked after two, which takes one
	})
	onDriver(t, Policy{Heartbeat: Heartbeat{Interval: time.Second, Passive: true}}, nil, func(r *rig) {
		timed := r.phaseOf(Policy{PhaseTimeout: 2 * time.Second})
		k := r.keeper(func(err *TimeoutError) bool { time.Sleep(time.Second); return err.Reason == ReasonHeartbeat })
		r.lives(&k.peer, 1100*time.Millisecond)
		k.Enter(timed)
		r.dies(&k.peer, time.Now(), 3*time.Second, ReasonPhase)
	})
}

// TestRateKeptInAPause has a reading pause while Keep makes up its mind about
// its rate. That pause was forgiven with what was before the answer.
func TestRateKeptInAPause(t *testing.T) {
	onDriver(t, Policy{MinReadRate: Rate{BytesPerSecond: 100, Grace: time.Second}}, nil, func(r *rig) {
		n := 0
		k := r.keeper(func(*TimeoutError) bool {
			if n++; n == 1 {
				time.Sleep(700 * time.Millisecond)
			}
			return n == 1
		})
		k.measure()
		r.lives(&k.peer, 1100*time.Millisecond)
		k.PauseRead()
		r.lives(&k.peer, time.Second) // the answer has come
		k.AwaitRead()
		r.dies(&k.peer, time.Now(), time.Second, ReasonMinReadRate)
	})
}

// TestMaxAgeIsNotAskedAbout, with a grace or without.
func TestMaxAgeIsNotAskedAbout(t *testing.T) {
	for _, grace := range []time.Duration{0, time.Second} {
		onBoth(t, Policy{MaxAge: time.Second, MaxAgeGrace: grace}, nil, func(r *rig) {
			k := r.keeper(func(*TimeoutError) bool { return true })
			r.dies(&k.peer, time.Now(), time.Second+grace, ReasonMaxAge)
			if len(k.asked) > 0 {
				r.Errorf("asked about %v", k.asked)
			}
		})
	}
}

// TestGoexit has callbacks end their goroutine, as a FailNow of a test does.
func TestGoexit(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		k := r.keeper(func(*TimeoutError) bool { runtime.Goexit(); return true })
		r.wait(time.Second + r.late())
		if len(k.expired) != 1 || r.Stats().Live != 0 {
			r.Errorf("expired %v", k.expired)
		}
	})
	onDriver(t, beats, nil, func(r *rig) {
		p := r.pinged()
		p.ping = func() error { runtime.Goexit(); return nil }
		r.wait(time.Minute)
		if len(p.pings) < 2 {
			r.Errorf("pinged at %v", p.pings)
		}
	})
}

// TestAnswerAfterClose has an OnTimeout return when the tracker is closed. The connection was
// handed back.
func TestAnswerAfterClose(t *testing.T) {
	for _, keep := range []bool{false, true} {
		onDriver(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
			k := r.keeper(func(*TimeoutError) bool { time.Sleep(time.Minute); return keep })
			r.wait(time.Second + r.late())
			live, err := r.Tracker.Close()
			if len(live) != 1 || err == nil || k.Live() {
				r.Errorf("handed back: %v, %v", live, err)
			}
			r.wait(time.Hour)
			if st := r.Stats(); len(k.expired) != 0 || st.HandedBack != 1 || st.Live != 0 {
				r.Errorf("expired %v, %+v", k.expired, st)
			}
		})
	}
}

// takeDue takes c, a limit of which is a second, out of the wheel before that passes, as a pass does, and
// waits until it has passed.
func (r *rig) takeDue(c *Conn) {
	r.wait(990 * time.Millisecond)
	c.shard.mu.Lock()
	c.shard.wheel.Cancel(&c.timer)
	c.shard.mu.Unlock()
	r.wait(time.Second)
}

// TestReplaceBesideVerdict replaces a policy when a pass has decided that a limit has passed,
// and before it ends the connection.
func TestReplaceBesideVerdict(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		p := r.peer()
		s := p.shard
		r.takeDue(&p.Conn)
		p.state.Or(ending)
		v, due := s.decide(&p.Conn)
		if !due {
			r.Fatal("not due")
		}
		if err := r.SetPolicy(Policy{IdleTimeout: time.Hour}); err != nil {
			r.Fatal(err)
		}
		s.timeOut(&p.Conn, v)
		r.lives(p, 50*time.Minute)
		r.wait(11 * time.Minute)
		if len(p.expired) != 1 {
			r.Errorf("expired %v", p.expired)
		}
	})
}

// TestEnterBesidePing enters a phase with a rarer heartbeat when a pass has decided to ping, and
// before it does. The new phase doesn't await the answer.
func TestEnterBesidePing(t *testing.T) {
	onDriver(t, Policy{Heartbeat: Heartbeat{Interval: time.Second, Timeout: time.Second, Misses: 1}}, nil, func(r *rig) {
		rare := r.phaseOf(Policy{Heartbeat: Heartbeat{Interval: time.Hour, Timeout: time.Second, Misses: 1}})
		p := r.pinged()
		s := p.shard
		r.takeDue(&p.Conn)
		v, due := s.decide(&p.Conn)
		if !due || v.what != evPing {
			r.Fatalf("%+v is due", v)
		}
		p.Enter(rare)
		r.wait(2 * r.opts.Tick)
		s.ping(&p.Conn, v)
		r.lives(&p.peer, 50*time.Minute)
		r.wait(11 * time.Minute)
		if len(p.pings) != 2 || len(p.expired) != 1 {
			r.Errorf("pinged after %v, expired %v", p.pings, p.expired)
		}
	})
}
