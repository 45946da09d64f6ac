package idle

import (
	"fmt"
	"time"
)

// Phase is a [Policy] made ready for the connections of one tracker. It is
// immutable, shared by pointer, and may be used by any number of connections
// and goroutines; see [Conn.Enter].
type Phase struct {
	policy  Policy
	tracker *Tracker

	// Timeouts in ticks, off when 0.
	idle, read, write          int64
	whole                      int64
	age, ageJitter, ageGrace   int64
	interval, pong, beats      int64 // active: ping after, answer within; passive: all of it
	readGrace, writeGrace      int64
	readPerByte, writePerByte  uint64 // ticks that a byte buys, as 32.32
	readPaid                   event  // what it is to have had more than was paid for
	readReach, writeReach, any uint32 // see reach
}

// Policy returns what the phase was made of.
func (p *Phase) Policy() Policy { return p.policy }

// fits reports what p needs of an owner that o does not have.
func (p *Phase) fits(o Owner) error {
	if _, ok := o.(Pinger); p.interval > 0 && !ok {
		return fmt.Errorf("idle: the policy has an active Heartbeat (every %v), but the owner, a %T, has no Ping method; add one, or use the Passive form", p.policy.Heartbeat.Interval, o)
	}
	return nil
}

// newPhase prepares p, which must be valid, for ticks of the given length.
func newPhase(t *Tracker, p Policy, tick time.Duration) *Phase {
	ticks := func(d time.Duration) int64 { return int64((d + tick - 1) / tick) }
	ph := &Phase{
		policy: p, tracker: t,
		idle: ticks(p.IdleTimeout), read: ticks(p.ReadTimeout), write: ticks(p.WriteTimeout), whole: ticks(p.PhaseTimeout),
		age: ticks(p.MaxAge), ageJitter: ticks(p.MaxAgeJitter), ageGrace: ticks(p.MaxAgeGrace),
		readGrace: ticks(p.MinReadRate.Grace + p.ReadTotal), writeGrace: ticks(p.MinWriteRate.Grace),
		readPerByte: perByte(p.MinReadRate, tick), writePerByte: perByte(p.MinWriteRate, tick),
	}
	if p.Heartbeat.Passive {
		ph.beats = ticks(p.Heartbeat.limit())
	} else {
		ph.interval, ph.pong = ticks(p.Heartbeat.Interval), ticks(p.Heartbeat.Timeout)
	}
	ph.readPaid = event(ReasonMinReadRate)
	if p.ReadTotal > 0 {
		ph.readPaid = event(ReasonReadTotal) // no byte buys anything
	}
	ph.readReach = reach(ph.read, ph.readGrace)
	ph.writeReach = reach(ph.write, ph.writeGrace)
	ph.any = min(ph.readReach, ph.writeReach, reach(ph.idle, ph.whole, ph.interval, ph.beats))
	return ph
}

// reach returns how many ticks after the present stamp the least of the given
// timeouts that are on ends: how near a deadline a wait, or a phase, brings up
// by beginning.
func reach(timeouts ...int64) uint32 {
	least := uint32(maxTicks)
	for _, t := range timeouts {
		if t > 0 {
			least = min(least, uint32(t))
		}
	}
	return least + 1
}

// perByte returns how many ticks a byte buys at rate r, as 32.32 and rounded
// up, in favour of the sender.
func perByte(r Rate, tick time.Duration) uint64 {
	if r.BytesPerSecond == 0 {
		return 0
	}
	divideUp := func(a, b uint64) uint64 { return (a + b - 1) / b }
	perSecond := divideUp(uint64(time.Second)<<32, uint64(tick))
	return divideUp(perSecond, uint64(r.BytesPerSecond))
}
