package idle

import (
	"strings"
	"testing"
	"time"
)

func (r *rig) setPolicy(p Policy) {
	r.Helper()
	if err := r.Tracker.SetPolicy(p); err != nil {
		r.Fatal(err)
	}
}

func TestLongerLimitHoldsAtOnce(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		p, since := r.peer(), time.Now()
		r.lives(p, 990*time.Millisecond)
		r.setPolicy(Policy{IdleTimeout: 10 * time.Second})
		r.dies(p, since, 10*time.Second, ReasonIdle)
	})
}

func TestShorterLimitCountsFromTheLastActivity(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		silent, talks := r.peer(), r.peer()
		r.wait(3 * time.Second)
		r.do(talks.Touch)
		last := time.Now()
		r.wait(time.Second)
		r.lives(silent, 0)
		since := time.Now()
		r.setPolicy(Policy{IdleTimeout: 2 * time.Second})
		r.dies(silent, since, 0, ReasonIdle)
		r.dies(talks, last, 2*time.Second, ReasonIdle)
	})
}

// TestReplacedLimitsCountFromNow covers those that need what was not noted before.
func TestReplacedLimitsCountFromNow(t *testing.T) {
	const limit = 2 * time.Second
	for _, was := range []Policy{{IdleTimeout: time.Hour}, {MinReadRate: Rate{1, time.Hour}, MinWriteRate: Rate{1, time.Hour}}} {
		for reason, p := range map[Reason]Policy{
			ReasonIdle:         {IdleTimeout: limit, ExplicitUse: true},
			ReasonMinReadRate:  {MinReadRate: Rate{100, limit}},
			ReasonMinWriteRate: {MinWriteRate: Rate{100, limit}},
			ReasonHeartbeat:    {Heartbeat: Heartbeat{Interval: limit, Passive: true}},
		} {
			if was.MinReadRate.Grace > 0 && (p.MinReadRate.Grace > 0 || p.MinWriteRate.Grace > 0) {
				continue // it goes on
			}
			onBoth(t, was, nil, func(r *rig) {
				c := r.peer()
				r.do(c.AwaitWrite)
				r.lives(c, time.Minute)
				since := time.Now()
				r.setPolicy(p)
				most := r.late() + r.opts.Tick + r.measuring(c, reason)
				r.wait(limit - 1)
				r.lives(c, 0)
				r.wait(most)
				if len(c.expired) != 1 || c.expired[0].Reason != reason {
					r.Fatalf("%v after it was replaced: expired by %v", time.Since(since), c.expired)
				}
			})
		}
	}
}

func TestReplacedPhase(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		phase := r.phaseOf(Policy{Name: "login", PhaseTimeout: time.Minute})
		in, out := r.peer(), r.peer()
		r.do(func() { in.Enter(phase) })
		since := time.Now()
		r.wait(time.Second)
		if err := phase.SetPolicy(Policy{PhaseTimeout: 3 * time.Second}); err != nil {
			r.Fatal(err)
		}
		if got, want := phase.Policy(), (Policy{Name: "login", PhaseTimeout: 3 * time.Second}); got != want {
			r.Errorf("the phase has %+v, want %+v", got, want)
		}
		r.dies(in, since, 3*time.Second, ReasonPhase)
		r.lives(out, time.Minute)
		late := time.Now()
		r.do(func() { out.Enter(phase) })
		r.dies(out, late, 3*time.Second, ReasonPhase)
	})
}

func TestRefusedPolicyChangesNothing(t *testing.T) {
	policy := Policy{IdleTimeout: time.Second}
	onDriver(t, policy, nil, func(r *rig) {
		other, err := New(policy, nil)
		if err != nil {
			r.Fatal(err)
		}
		defer other.Close()
		theirs, err := other.Phase(Policy{})
		if err != nil {
			r.Fatal(err)
		}
		exempt := r.phaseOf(Policy{})
		p := r.peer()
		for want, got := range map[string]error{
			"IdleTimeout is -1s":           r.Tracker.SetPolicy(Policy{IdleTimeout: -time.Second}),
			"at least one of IdleTimeout":  r.Tracker.SetPolicy(Policy{Name: "nothing"}),
			"shorter than the tick":        exempt.SetPolicy(Policy{ReadTimeout: 1}),
			"active Heartbeat (every 1s)":  r.Tracker.SetPolicy(Policy{Heartbeat: Heartbeat{Interval: time.Second, Timeout: time.Second}}),
			"active Heartbeat (every 10s)": exempt.SetPolicy(Policy{Heartbeat: Heartbeat{Interval: 10 * time.Second, Timeout: time.Second}}),
		} {
			if got == nil || !strings.Contains(got.Error(), want) {
				r.Errorf("got %v, want %s", got, want)
			}
		}
		if r.Tracker.Policy() != policy || exempt.Policy() != (Policy{}) || theirs.Policy() != (Policy{}) {
			r.Errorf("changed: %+v, %+v, %+v", r.Tracker.Policy(), exempt.Policy(), theirs.Policy())
		}
		r.dies(p, time.Now(), time.Second, ReasonIdle)
		panics(r.T, "SetPolicy of a nil Phase", func() { (*Phase)(nil).SetPolicy(policy) })
	})
	onDriver(t, policy, nil, func(r *rig) {
		r.Tracker.Close()
		if err := r.Tracker.SetPolicy(policy); err != ErrClosed {
			r.Errorf("after Close: %v", err)
		}
	})
}

// TestReplaceDuringOnTimeout has the policy replaced, and all others visited, while an
// OnTimeout is running that then answers yes.
func TestReplaceDuringOnTimeout(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		k := &slowKeeper{}
		r.track(&k.Conn, k)
		r.wait(time.Hour + r.late())
		asked := k.at
		if asked.IsZero() {
			r.Fatal("OnTimeout was not asked")
		}
		r.wait(100 * time.Millisecond)
		r.setPolicy(Policy{IdleTimeout: 2 * time.Second})
		r.wait(time.Until(asked.Add(slowKeeps + 2*time.Second - 1)))
		if k.at != asked {
			r.Fatalf("asked again too early, after %v", k.at.Sub(asked))
		}
		r.wait(r.late())
		if k.at == asked {
			r.Error("the limit that the policy was replaced by has passed, and OnTimeout was not asked")
		}
	})
}

// TestMissesEndWithTheHeartbeat replaces an active Heartbeat after most of its misses. They
// must not count against what follows, be it a passive Heartbeat, none, or an active one.
func TestMissesEndWithTheHeartbeat(t *testing.T) {
	active := Policy{Heartbeat: Heartbeat{Interval: time.Second, Timeout: time.Second, Misses: 100}}
	passive := Policy{Heartbeat: Heartbeat{Interval: time.Second, Timeout: time.Second, Misses: 2, Passive: true}}
	none := Policy{IdleTimeout: time.Hour}
	onBoth(t, active, nil, func(r *rig) {
		missMost := func() *pinger {
			p := r.pinged()
			r.wait(95 * time.Second)
			if n := misses(p.state.Load()); n < 90 {
				r.Fatalf("%d misses", n)
			}
			return p
		}
		beat := func(p *pinger) (last time.Time) {
			for range 2 {
				r.wait(500 * time.Millisecond)
				last = time.Now()
				r.do(p.Beat)
			}
			return last
		}
		p := missMost()
		r.setPolicy(passive)
		r.dies(&p.peer, beat(p), 3*time.Second, ReasonHeartbeat)

		r.setPolicy(active)
		p = missMost()
		r.setPolicy(none)
		beat(p)
		r.lives(&p.peer, time.Minute)
		r.setPolicy(active)
		r.lives(&p.peer, 101*time.Second)
		if r.wait(5 * time.Second); len(p.expired) == 0 {
			r.Error("silence does not end it")
		}
	})
}
