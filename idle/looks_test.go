package idle

import (
	"testing"
	"time"
)

// These tests pin what the library is about: a deadline that keeps moving
// costs nothing. Under one timeout T a connection is looked at no more often
// than 2·elapsed/T + 1, and relinked hardly ever, at any rate of activity.

// busy has a connection do something every so often, for a while.
func busy(t *testing.T, p Policy, every time.Duration, do func(*peer)) (Stats, time.Duration) {
	t.Helper()
	var st Stats
	const elapsed = 100 * time.Second
	onDriver(t, p, nil, func(r *rig) {
		p, born := r.peer(), time.Now()
		for time.Since(born) < elapsed {
			do(p)
			time.Sleep(every)
		}
		r.lives(p, 0)
		st = r.Stats()
	})
	return st, elapsed
}

func TestLooksDoNotGrowWithTheRate(t *testing.T) {
	const timeout = 5 * time.Second
	for _, every := range []time.Duration{17 * time.Microsecond * 100, 17 * time.Millisecond, 700 * time.Millisecond, 4 * time.Second} {
		for name, do := range map[string]func(*peer){
			"touch":    func(p *peer) { p.Touch() },
			"received": func(p *peer) { p.Received(100) },
			"waits":    func(p *peer) { p.AwaitRead(); p.Received(100); p.PauseRead() },
			"enter":    func(p *peer) { p.Enter(p.shard.tracker.phase) },
		} {
			st, elapsed := busy(t, Policy{IdleTimeout: timeout}, every, do)
			if most := uint64(2*elapsed/timeout + 1); st.Looks > most || st.Relinks > 0 {
				t.Errorf("%s every %v: %d looks, want at most %d; %d relinks", name, every, st.Looks, most, st.Relinks)
			}
		}
	}
}

// TestRelinksDoNotGrowWithTheRate has waits begin and end, and phases come and
// go, whose deadlines are nearer than the one before.
func TestRelinksDoNotGrowWithTheRate(t *testing.T) {
	const timeout = 5 * time.Second
	policy := Policy{IdleTimeout: time.Hour, ReadTimeout: timeout, WriteTimeout: timeout}
	for _, every := range []time.Duration{1700 * time.Microsecond, 17 * time.Millisecond, 700 * time.Millisecond, 4 * time.Second} {
		var short, long *Phase
		for name, do := range map[string]func(*peer){
			"reads":  func(p *peer) { p.PauseRead(); p.AwaitRead(); p.Received(1); p.PauseRead() },
			"writes": func(p *peer) { p.PauseRead(); p.AwaitWrite(); p.Sent(1); p.PauseWrite() },
			"phases": func(p *peer) {
				if short == nil || short.tracker != p.shard.tracker {
					short, _ = p.shard.tracker.Phase(Policy{IdleTimeout: timeout})
					long, _ = p.shard.tracker.Phase(Policy{IdleTimeout: time.Hour})
				}
				p.Enter(long)
				p.Enter(short)
				p.Enter(long)
			},
			"same phase": func(p *peer) {
				if short == nil || short.tracker != p.shard.tracker {
					short, _ = p.shard.tracker.Phase(Policy{IdleTimeout: timeout})
				}
				p.Enter(short)
				p.Enter(short)
			},
		} {
			short = nil
			st, elapsed := busy(t, policy, every, do)
			most := uint64(2*elapsed/timeout + 1)
			if st.Relinks > most || st.Looks > most {
				t.Errorf("%s every %v: %d relinks and %d looks, want at most %d", name, every, st.Relinks, st.Looks, most)
			}
		}
	}
}

// TestOneLookIsEnough has short timeouts, of which the wheel knows the tick, pass
// one after the other while more connections come.
func TestOneLookIsEnough(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: 300 * time.Millisecond}, &Options{Shards: 1}, func(r *rig) {
		const n = 100
		for range n {
			r.wait(odd)
			r.peer()
		}
		r.wait(time.Second)
		if st := r.Stats(); st.Looks != n || st.TimedOut[ReasonIdle] != n {
			r.Errorf("%d connections: %+v", n, st)
		}
	})
}
