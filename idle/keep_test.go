package idle

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"
)

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
			r.lives(k, limit+10*r.opts.Tick) // one a tick
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
					r.dies(k, born, 15*time.Second, passes)
					if len(k.asked) == 0 || k.asked[0] != kept {
						r.Errorf("asked about %v", k.asked)
					}
				})
			})
		}
	}
}

// TestOutputDuringKeepIsNone has OnTimeout write a farewell, of which the kernel tells. An answer
// that took so long that the owner is probed again doesn't make that a sign of life.
func TestOutputDuringKeepIsNone(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		var wrote time.Time
		k := r.with(&peer{keep: func(*TimeoutError) bool {
			time.Sleep(500 * time.Millisecond)
			wrote = time.Now()
			return false
		}, probe: func() (e SocketState) {
			if !wrote.IsZero() {
				e.Out = time.Since(wrote) + 1
			}
			return e
		}})
		r.dies(k, time.Now(), 1500*time.Millisecond, ReasonIdle)
		if k.probes != 2 {
			r.Errorf("probed %d times", k.probes)
		}
	})
}

// TestGoexit has a Ping end its goroutine, as a FailNow of a test does. The simulation has OnTimeout do that.
func TestGoexit(t *testing.T) {
	onDriver(t, beats, nil, func(r *rig) {
		p := r.pinged()
		p.ping = func() error { runtime.Goexit(); return nil }
		r.wait(time.Minute)
		if len(p.pings) < 2 {
			r.Errorf("pinged at %v", p.pings)
		}
	})
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
		check(r, r.SetPolicy(Policy{IdleTimeout: time.Hour}))
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
		r.lives(p, 50*time.Minute)
		r.wait(11 * time.Minute)
		if len(p.pings) != 2 || len(p.expired) != 1 {
			r.Errorf("pinged after %v, expired %v", p.pings, p.expired)
		}
	})
}
