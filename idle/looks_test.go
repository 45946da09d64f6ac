package idle

import (
	"math/rand/v2"
	"testing"
	"time"
)

// These tests pin what the library is about: a deadline that keeps moving
// costs nothing. Under one timeout T a connection is looked at no more often
// than mostLooks(T) times per T, and relinked hardly ever, whatever it does.

// mostLooks returns how often a connection with one timeout of so many ticks is
// looked at per timeout at the most. A silence goes down two levels of the wheel
// with each look, as what is left of it is less than a slot, an eighth of the
// distance; and a byte in the last tick of a silence makes it begin anew.
func mostLooks(ticks int64) uint64 {
	most := uint64(2)
	for reach := int64(64 * 64); ticks >= reach; reach *= 64 {
		most++
	}
	return most
}

// TestLooksAreBounded has bytes come in patterns that make for many looks: just
// before the timeout, or before or after a look, which the connection cannot know.
func TestLooksAreBounded(t *testing.T) {
	const timeouts = 20 // of the time that each pattern takes
	ms := time.Millisecond
	for _, timeout := range []time.Duration{50 * ms, 300 * ms, 640 * ms, 650 * ms, 5 * time.Second, time.Minute, time.Hour, 24 * time.Hour} {
		try := func(pattern string, wait func(*rig, *peer) time.Duration) {
			onDriver(t, Policy{IdleTimeout: timeout}, &Options{Shards: 1}, func(r *rig) {
				p, born := r.peer(), time.Now()
				for time.Since(born) < timeouts*timeout {
					r.wait(max(r.opts.Tick/100, wait(r, p)))
					if !p.Live() {
						r.Fatalf("%s of %v: timed out", pattern, timeout)
					}
					p.Touch()
				}
				ticks := int64(timeout / r.opts.Tick)
				if looks, most := r.Stats().Checks, mostLooks(ticks)*(timeouts+1); looks > most {
					r.Errorf("%s of %v: %d looks in %d timeouts, want at most %d", pattern, timeout, looks, timeouts, most)
				}
			})
		}
		for ticks := range time.Duration(20) {
			try("just before the end", func(r *rig, _ *peer) time.Duration { return timeout - (1+ticks)*r.opts.Tick })
		}
		for part := range time.Duration(31) {
			try("a part", func(*rig, *peer) time.Duration { return timeout * (1 + part) / 32 })
		}
		rng := rand.New(rand.NewPCG(1, uint64(timeout)))
		for range 10 {
			try("a random part", func(r *rig, _ *peer) time.Duration { return time.Duration(rng.Int64N(int64(timeout - 2*r.opts.Tick))) })
		}
		for _, offset := range []time.Duration{-1, 1} { // just before a look, or just after it
			for nth := range 6 {
				try("a look", func(r *rig, p *peer) time.Duration {
					begun := time.Now()
					for range nth {
						r.wait(max(1, min(r.clock.Until(p.shard.due.Load())+r.clock.Slack+1, timeout-r.opts.Tick-time.Since(begun))))
					}
					return min(r.clock.Until(p.shard.due.Load())+r.clock.Slack+offset, timeout-r.opts.Tick-time.Since(begun))
				})
			}
		}
	}
}

// busy has a connection do something every so often, for a while. It's given two phases.
func busy(t *testing.T, p Policy, every time.Duration, do func(p *peer, short, long *Phase)) (Stats, time.Duration) {
	t.Helper()
	var st Stats
	const elapsed = 100 * time.Second
	onDriver(t, p, nil, func(r *rig) {
		short, long := r.phaseOf(Policy{IdleTimeout: 5 * time.Second}), r.phaseOf(Policy{IdleTimeout: time.Hour})
		p, born := r.peer(), time.Now()
		for time.Since(born) < elapsed {
			do(p, short, long)
			time.Sleep(every)
		}
		r.lives(p, 0)
		st = r.Stats()
	})
	return st, elapsed
}

// TestLooksDoNotGrowWithTheRate has bytes come, waits begin and end, and phases come and go. Only those whose deadlines are nearer than
// the one before move the connection, and seldom.
func TestLooksDoNotGrowWithTheRate(t *testing.T) {
	const timeout = 5 * time.Second
	idle, waits := Policy{IdleTimeout: timeout}, Policy{IdleTimeout: time.Hour, ReadTimeout: timeout, WriteTimeout: timeout}
	for _, every := range []time.Duration{1700 * time.Microsecond, 17 * time.Millisecond, 700 * time.Millisecond, 4 * time.Second} {
		for name, c := range map[string]struct {
			policy Policy
			do     func(p *peer, short, long *Phase)
		}{
			"touch":      {idle, func(p *peer, _, _ *Phase) { p.Touch() }},
			"received":   {idle, func(p *peer, _, _ *Phase) { p.Received(100) }},
			"waits":      {idle, func(p *peer, _, _ *Phase) { p.AwaitRead(); p.Received(100); p.PauseRead() }},
			"enter":      {idle, func(p *peer, short, _ *Phase) { p.Enter(short) }},
			"reads":      {waits, func(p *peer, _, _ *Phase) { p.PauseRead(); p.AwaitRead(); p.Received(1); p.PauseRead() }},
			"writes":     {waits, func(p *peer, _, _ *Phase) { p.PauseRead(); p.AwaitWrite(); p.Sent(1); p.PauseWrite() }},
			"phases":     {waits, func(p *peer, short, long *Phase) { p.Enter(long); p.Enter(short); p.Enter(long) }},
			"same phase": {waits, func(p *peer, short, _ *Phase) { p.Enter(short); p.Enter(short) }},
		} {
			st, elapsed := busy(t, c.policy, every, c.do)
			most := mostLooks(int64(timeout/defaultTick)) * uint64(elapsed/timeout+1)
			if st.Checks > most || st.EarlyReschedules > most || c.policy == idle && st.EarlyReschedules > 0 {
				t.Errorf("%s every %v: %d relinks and %d looks, want at most %d", name, every, st.EarlyReschedules, st.Checks, most)
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
		if st := r.Stats(); st.Checks != n || st.TimedOut[ReasonIdle] != n {
			r.Errorf("%d connections: %+v", n, st)
		}
	})
}

// TestWaitsUnderARateMoveNothing has a sender be far ahead of a minimum rate. Its waits need no earlier place in the wheel.
func TestWaitsUnderARateMoveNothing(t *testing.T) {
	p := Policy{IdleTimeout: time.Hour, MinReadRate: Rate{BytesPerSecond: 1000, Grace: 5 * time.Second}}
	st, elapsed := busy(t, p, 10*time.Millisecond, func(p *peer, _, _ *Phase) {
		p.AwaitRead()
		p.Received(2000)
		p.PauseRead()
	})
	if most := uint64(elapsed / time.Second); st.EarlyReschedules > most {
		t.Errorf("%d early reschedules in %v", st.EarlyReschedules, elapsed)
	}
}
