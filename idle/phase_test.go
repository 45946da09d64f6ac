package idle

import (
	"strings"
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
		IdleTimeout: time.Second, ReadTimeout: time.Second, WriteTimeout: time.Second, PhaseTimeout: time.Second, MaxAge: time.Minute,
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

// TestPingTakesBackNoPhase has a phase begin a tick after a pass has looked at the
// clock for the stamp of a ping.
func TestPingTakesBackNoPhase(t *testing.T) {
	onDriver(t, beats, nil, func(r *rig) {
		p := r.pinged()
		r.lives(&p.peer, odd)
		next := clock.StampOf(r.clock.Now() + 1)
		p.pinged.Store(next)
		r.own[0].ping(&p.Conn, decision{stamp: p.shard.stamp()})
		if got := p.pinged.Load(); got != next {
			r.Errorf("the phase that began at %d has begun at %d", next.Bits(), got.Bits())
		}
	})
}

var handshake = Policy{Name: "handshake", PhaseTimeout: time.Second}

// TestPhaseTimeoutCountsFromTrack begins at many instants of a tick, for a
// limit that is a multiple of one and for one that is not.
func TestPhaseTimeoutCountsFromTrack(t *testing.T) {
	for _, limit := range []time.Duration{time.Second, time.Second + odd} {
		onBoth(t, Policy{PhaseTimeout: limit}, nil, func(r *rig) {
			for range 20 {
				r.wait(odd)
				r.dies(r.peer(), time.Now(), limit, ReasonPhase)
			}
		})
	}
}

// TestPhaseTimeoutIsMovedByNothing has everything happen that moves some other
// limit.
func TestPhaseTimeoutIsMovedByNothing(t *testing.T) {
	policy := handshake
	policy.IdleTimeout, policy.ReadTimeout, policy.WriteTimeout = time.Minute, time.Minute, time.Minute
	policy.MinReadRate, policy.MinWriteRate = Rate{1, time.Minute}, Rate{1, time.Minute}
	for name, move := range map[string]func(*peer){
		"nothing":  func(*peer) {},
		"Touch":    func(p *peer) { p.Touch() },
		"Received": func(p *peer) { p.Received(1000) },
		"Sent":     func(p *peer) { p.Sent(1000) },
		"Beat":     func(p *peer) { p.Beat() },
		"waits":    func(p *peer) { p.PauseRead(); p.AwaitWrite(); p.AwaitRead(); p.PauseWrite() },
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, policy, nil, func(r *rig) {
				r.wait(odd)
				p, since := r.peer(), time.Now()
				for range 9 {
					r.lives(p, 100*time.Millisecond)
					r.do(func() { move(p) })
				}
				r.dies(p, since, time.Second, ReasonPhase)
			})
		})
	}
}

// TestKeepOfAPhaseRestartsItFromTheAnswer lets Keep take its time.
func TestKeepOfAPhaseRestartsItFromTheAnswer(t *testing.T) {
	onDriver(t, handshake, nil, func(r *rig) {
		n := 0
		k := r.keeper(func(*TimeoutError) bool {
			time.Sleep(700 * time.Millisecond)
			n++
			return n < 2
		})
		r.wait(time.Second + r.late())
		answered := k.when[0].Add(700 * time.Millisecond)
		r.lives(&k.peer, time.Until(answered.Add(time.Second)))
		r.dies(&k.peer, answered, 1700*time.Millisecond, ReasonPhase)
	})
}

// TestTimeoutErrorNamesThePhase asks for the phase that the connection is in by
// then, whatever the limit.
func TestTimeoutErrorNamesThePhase(t *testing.T) {
	onBoth(t, handshake, nil, func(r *rig) {
		early, late, unnamed, since := r.peer(), r.peer(), r.peer(), time.Now()
		body, nameless := r.phaseOf(Policy{Name: "body", IdleTimeout: time.Second}), r.phaseOf(Policy{IdleTimeout: time.Second})
		r.do(func() { late.Enter(body); unnamed.Enter(nameless) })
		r.dies(early, since, time.Second, ReasonPhase)
		for p, want := range map[*peer]struct{ phase, setting, text string }{
			early:   {"handshake", "PhaseTimeout", "i/o timeout: handshake: PhaseTimeout of 1s passed after 1"},
			late:    {"body", "IdleTimeout", "i/o timeout: body: IdleTimeout of 1s passed after 1"},
			unnamed: {"", "IdleTimeout", "i/o timeout: IdleTimeout of 1s passed after 1"},
		} {
			if len(p.expired) != 1 {
				r.Fatalf("expired: %v", p.expired)
			}
			if err := p.expired[0]; err.Phase != want.phase || err.Setting != want.setting || !strings.HasPrefix(err.Error(), want.text) {
				r.Errorf("%s in phase %q: %q, want %q", err.Setting, err.Phase, err, want.text)
			}
		}
	})
}
