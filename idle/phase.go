package idle

import (
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// Phase is a [Policy] prepared for the connections of one tracker. Any number of
// connections and goroutines may use it; see [Conn.Enter]. [Phase.SetPolicy] replaces
// its policy.
type Phase struct {
	policy Policy // of this version

	// Each policy that the phase has had is a version of it. A version is immutable.
	// Users hold the first version, which points to the current one. A connection
	// holds the version that was current when it entered, until it follows.
	first   *Phase
	current atomic.Pointer[Phase] // only in the first version
	tracker *Tracker              // only in the first version
	number  uint64                // how many versions there were before

	clock *clock.Clock // the tracker's
	ended *reasonCount // of all phases with the name of policy

	limits  []terms // those that are on
	in, out direction
	soonest uint32 // the first deadline is this many ticks after the start of the phase, or later; MaxAge aside
	aged    bool   // MaxAge is on
}

// A direction is the part of a phase that concerns reports on one flow.
type direction struct {
	counted int64  // ticks that all waits together may take; 0 if there is no such limit
	perByte uint64 // ticks that a byte pays for, as 32.32; 0 without a minimum rate
	credit  int64  // ticks that bytes can pay for in advance, as 32.32
	soonest uint32 // the first deadline is this many ticks after the start of a wait, or later
}

// mostCredit is how long bytes can pay for in advance. Without a bound, a peer that has moved
// a megabyte could then be silent for an hour.
const mostCredit = time.Minute

// continues reports whether the account of waits that was kept under another version
// is valid under d.
func (d *direction) continues(other *direction) bool {
	return d.counted == 0 || other.counted != 0 && (d.perByte == 0) == (other.perByte == 0)
}

// Policy returns the policy that the phase was given last.
func (p *Phase) Policy() Policy { return p.latest().policy }

// Version returns the policy that the phase was given last, and how many times its policy
// has been replaced.
func (p *Phase) Version() (now Policy, version uint64) {
	latest := p.latest()
	return latest.policy, latest.number
}

// latest returns the current version of p.
func (p *Phase) latest() *Phase { return p.first.current.Load() }

// direction returns the part of p that concerns what is sent, or what arrives.
func (p *Phase) direction(out bool) *direction {
	if out {
		return &p.out
	}
	return &p.in
}

// replace makes next the current version of p. Only one goroutine at a time may call it.
func (p *Phase) replace(next *Phase) {
	next.first, next.number = p.first, p.latest().number+1
	p.first.current.Store(next)
}

// newPhase returns the phase for p, which must be valid, in ticks of the clock k.
func newPhase(k *clock.Clock, p Policy) *Phase {
	inTicks := func(d time.Duration) int64 { return int64((d + k.Tick - 1) / k.Tick) }
	ph := &Phase{
		policy: p, clock: k, soonest: maxTicks + 1,
		in:  direction{perByte: perByte(p.MinReadRate, k.Tick), credit: ticks(inTicks(mostCredit)), soonest: maxTicks + 1},
		out: direction{perByte: perByte(p.MinWriteRate, k.Tick), credit: ticks(inTicks(mostCredit)), soonest: maxTicks + 1},
	}
	for r := ReasonIdle; r < numLimits; r++ {
		l := &limits[r]
		allowed := l.allowed(&p)
		if allowed == 0 {
			continue
		}
		t := terms{limit: l, reason: r, allowed: allowed, ticks: inTicks(allowed)}
		first := t.ticks
		switch {
		case r == ReasonMaxAge:
			t.jitter, t.grace = inTicks(p.MaxAgeJitter), inTicks(p.MaxAgeGrace)
		case r == ReasonHeartbeat && !p.Heartbeat.Passive:
			t.interval, t.pong, t.misses = inTicks(p.Heartbeat.Interval), inTicks(p.Heartbeat.Timeout), p.Heartbeat.misses()
			t.jitter = min(inTicks(p.Heartbeat.Jitter), t.interval)
			first = max(1, t.interval-max(0, t.jitter-1))
		}
		ph.limits = append(ph.limits, t)
		ph.bringsUp(l.counts, first)
	}
	ph.first = ph
	ph.current.Store(ph)
	return ph
}

// bringsUp records that a clock brings up a deadline after the given number of
// ticks.
func (p *Phase) bringsUp(from clockOf, ticks int64) {
	after := uint32(ticks) + 1
	switch from {
	case ofLife:
		p.aged = true
		return
	case ofReads:
		p.in.counted = ticks
		p.in.soonest = min(p.in.soonest, after)
	case ofRead:
		p.in.soonest = min(p.in.soonest, after)
	case ofWrites:
		p.out.counted = ticks
		p.out.soonest = min(p.out.soonest, after)
	case ofWrite:
		p.out.soonest = min(p.out.soonest, after)
	}
	p.soonest = min(p.soonest, after)
}

// perByte returns how long a byte pays for at rate r, in ticks as 32.32. It is
// rounded up, in favour of the sender.
func perByte(r Rate, tick time.Duration) uint64 {
	if r.BytesPerSecond == 0 {
		return 0
	}
	divideUp := func(a, b uint64) uint64 { return (a + b - 1) / b }
	perSecond := divideUp(uint64(time.Second)<<32, uint64(tick))
	return divideUp(perSecond, uint64(r.BytesPerSecond))
}
