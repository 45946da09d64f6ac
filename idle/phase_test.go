package idle

import (
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

func TestEnterMakesAShorterTimeoutEffective(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		p, short := r.peer(), r.phaseOf(Policy{ReadTimeout: time.Second})
		r.lives(p, time.Minute+odd)
		r.do(func() { p.Enter(short) })
		r.dies(p, time.Now(), time.Second, ReasonRead)
	})
}

func TestEnterMakesALongerTimeoutEffective(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		p, long := r.peer(), r.phaseOf(Policy{IdleTimeout: time.Hour})
		r.lives(p, 900*time.Millisecond+odd)
		r.do(func() { p.Enter(long) })
		r.dies(p, time.Now(), time.Hour, ReasonIdle)
	})
}

func TestEnterTheExemptPhaseAndBack(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		p, exempt := r.peer(), r.phaseOf(Policy{})
		r.do(func() { p.Enter(exempt) })
		r.lives(p, 24*time.Hour+odd)
		r.do(func() { p.Enter(r.Tracker.phase) })
		r.dies(p, time.Now(), time.Second, ReasonIdle)
	})
}

// TestEnterBeginsAllLimitsButTheAge enters the same phase again and again.
func TestEnterBeginsAllLimitsButTheAge(t *testing.T) {
	policy := Policy{
		IdleTimeout: time.Second, ReadTimeout: time.Second, WriteTimeout: time.Second, MaxAge: time.Minute,
		Heartbeat:   Heartbeat{Interval: time.Second, Passive: true},
		MinReadRate: Rate{1000, time.Second}, MinWriteRate: Rate{1000, time.Second},
	}
	onBoth(t, policy, nil, func(r *rig) {
		p, born := r.peer(), time.Now()
		r.do(p.AwaitWrite)
		for time.Since(born) < 59*time.Second {
			r.lives(p, 900*time.Millisecond+odd)
			r.do(func() { p.Enter(r.Tracker.phase) })
		}
		r.dies(p, born, time.Minute, ReasonMaxAge)
	})
}

// TestEnterAPhaseWhoseAgeIsPassed must not wait for the other limits.
func TestEnterAPhaseWhoseAgeIsPassed(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: 30 * time.Second}, nil, func(r *rig) {
		p, aged := r.peer(), r.phaseOf(Policy{MaxAge: 20 * time.Second})
		r.lives(p, 25*time.Second)
		r.do(func() { p.Enter(aged) })
		r.dies(p, time.Now(), 0, ReasonMaxAge)
	})
}

// TestEnterKeepsWaits has a phase begin while a read waits and no write does.
func TestEnterKeepsWaits(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		p, q := r.peer(), r.peer()
		write := r.phaseOf(Policy{WriteTimeout: time.Second})
		r.do(func() { p.Enter(write); q.AwaitWrite(); q.Enter(write) })
		since := time.Now()
		r.dies(q, since, time.Second, ReasonWrite)
		r.lives(p, time.Minute)
	})
}

func TestEnterPanicsOnMisuse(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		p := r.peer()
		other, err := New(Policy{IdleTimeout: time.Hour}, nil)
		if err != nil {
			r.Fatal(err)
		}
		defer other.Close()
		r.do(func() {
			panics(t, "another tracker", func() { p.Enter(other.phase) })
			pings := r.phaseOf(Policy{Heartbeat: Heartbeat{Interval: time.Second, Timeout: time.Second}})
			panics(t, "no Ping to call", func() { p.Enter(pings) })
		})
		r.lives(p, time.Minute)
	})
}

// TestEnterTakesBackNothing does the two things that Enter does apart from each
// other, as when its goroutine is preempted, with an activity between.
func TestEnterTakesBackNothing(t *testing.T) {
	for reason, of := range map[Reason]struct {
		policy Policy
		do     func(*peer)
	}{
		ReasonIdle:      {Policy{IdleTimeout: time.Second}, func(p *peer) { p.Touch() }},
		ReasonWrite:     {Policy{WriteTimeout: time.Second}, func(p *peer) { p.TouchOut() }},
		ReasonHeartbeat: {Policy{Heartbeat: Heartbeat{Interval: time.Second, Passive: true}}, func(p *peer) { p.Beat() }},
	} {
		onDriver(t, of.policy, nil, func(r *rig) {
			p := r.peer()
			p.AwaitWrite()
			stamp := p.shard.stamp()
			r.lives(p, 100*time.Millisecond)
			of.do(p)
			since := time.Now()
			p.begin(r.Tracker.phase, stamp)
			r.dies(p, since, time.Second, reason)
		})
	}
}

// TestPingTakesBackNoPhase has a phase begin a tick after a pass has looked at the
// clock for the stamp of a ping.
func TestPingTakesBackNoPhase(t *testing.T) {
	onDriver(t, beats, nil, func(r *rig) {
		p := r.pinged()
		r.lives(&p.peer, odd)
		next := clock.StampOf(r.clock.Now() + 1)
		timed := r.phaseOf(Policy{PhaseTimeout: time.Second})
		p.begin(timed, next)
		p.phase.Store(timed)
		r.own[0].ping(&p.Conn, decision{stamp: p.shard.stamp()})
		if got := p.pinged.Load(); got != next {
			r.Errorf("the phase that began at %d has begun at %d", next.Bits(), got.Bits())
		}
	})
}

// TestErrorIsOfOnePhase has a connection enter a phase between the look that
// finds a limit passed and the making of the error.
func TestErrorIsOfOnePhase(t *testing.T) {
	onDriver(t, Policy{Name: "first", IdleTimeout: time.Second}, &Options{Shards: 1}, func(r *rig) {
		p := r.peer()
		v := decision{phase: r.Tracker.phase, Moment: r.clock.Moment()}
		v.Now += 1000
		v.Deadline = p.look(v.phase, v.Moment)
		p.Enter(r.phaseOf(Policy{Name: "second", ReadTimeout: time.Minute}))
		if err := p.shard.errorOf(&v); err.Phase != "first" || err.Limit != time.Second {
			r.Errorf("%v", err)
		}
	})
}

// TestEnterWhileDraining enters a phase with a longer MaxAge when the owner has been asked to finish.
// It isn't asked again, and the connection ends after the age and the grace of that phase.
func TestEnterWhileDraining(t *testing.T) {
	onBoth(t, Policy{MaxAge: 10 * time.Second, MaxAgeGrace: 5 * time.Second}, nil, func(r *rig) {
		next := r.phaseOf(Policy{MaxAge: time.Minute, MaxAgeGrace: 10 * time.Second})
		p, since := &toldTwice{}, time.Now()
		r.track(&p.Conn, p)
		r.wait(12 * time.Second)
		r.do(func() { p.Enter(next) })
		r.lives(&p.peer, 58*time.Second-1)
		r.dies(&p.peer, since.Add(70*time.Second), 0, ReasonMaxAge)
		if p.drained != 1 {
			r.Errorf("told %d times", p.drained)
		}
	})
}
