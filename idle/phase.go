package idle

import (
	"cmp"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
	"github.com/idlewheel/idlewheel/idle/internal/deadlines"
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

	clock *clock.Clock // the tracker's
	ended *reasonCount // of all phases with the name of policy

	limits  []deadlines.Terms // those that are on
	beats   uint32            // like direction.account, for the Heartbeat
	in, out direction
	soonest uint32 // the first deadline is this many ticks after the start of the phase, or later; MaxAge aside
	aged    bool   // MaxAge is on
}

// A direction is the part of a phase that concerns reports on one flow.
type direction struct {
	counted int64  // ticks that all waits together may take; 0 if there is no such limit
	account uint32 // another number if all waits count anew under this version
	perByte uint64 // ticks that a byte pays for, as 32.32; 0 without a minimum rate
	credit  int64  // ticks that bytes can pay for in advance, as 32.32
	soonest uint32 // the first deadline is this many ticks after the start of a wait, or later
	silence uint32 // ReadTimeout or WriteTimeout, in ticks; more than any without one
}

// mostCredit is how long bytes can pay for in advance. Without a bound, a peer that has moved a
// megabyte could be silent for an hour.
const mostCredit = time.Minute

// continues reports whether the account of waits kept under another version is valid under d. A
// connection may not have followed to one between them that kept none.
func (d *direction) continues(other *direction) bool {
	return d.counted == 0 || d.account == other.account
}

// succeed sets d.account, if d takes the place of was.
func (d *direction) succeed(was *direction) {
	if d.account = was.account; d.counted != 0 && (was.counted == 0 || (d.perByte == 0) != (was.perByte == 0)) {
		d.account++
	}
}

// Policy returns the current policy of the phase.
func (p *Phase) Policy() Policy { return p.latest().policy }

// latest returns the current version of p.
func (p *Phase) latest() *Phase { return p.first.current.Load() }

// direction returns the part of p that concerns what is sent, or what arrives.
func (p *Phase) direction(out bool) *direction {
	if out {
		return &p.out
	}
	return &p.in
}

// Phase makes a phase with the policy p for [Conn.Enter]. If p sets no limit,
// connections in the phase have none. Phase fails if p is invalid, and with [ErrClosed] if
// the tracker is closed.
func (t *Tracker) Phase(p Policy) (*Phase, error) {
	t.mustBeMade()
	if err := p.validate(t.opts.Tick); err != nil {
		return nil, err
	}
	if t.isClosed() {
		return nil, ErrClosed
	}
	ph := newPhase(t.clock, p)
	ph.tracker = t
	ph.ended = t.byPhase.of(p.Name)
	return ph, nil
}

// renew makes a version of a phase with the policy p its current one. t.mu must be held.
func (t *Tracker) renew(ph *Phase, p Policy) {
	next := newPhase(t.clock, p)
	next.first, next.ended = ph.first, t.byPhase.of(p.Name)
	was := ph.latest()
	next.in.succeed(&was.in)
	next.out.succeed(&was.out)
	next.beats = was.beats
	if beat, had := p.Heartbeat, was.policy.Heartbeat; beat.Interval > 0 && (had.Interval == 0 || had.Passive != beat.Passive) {
		next.beats++
	}
	ph.first.current.Store(next)
}

// newPhase returns the phase for p, which must be valid, in ticks of the clock k.
func newPhase(k *clock.Clock, p Policy) *Phase {
	inTicks := func(d time.Duration) int64 { return int64((d + k.Tick - 1) / k.Tick) }
	ph := &Phase{
		policy: p, clock: k, soonest: clock.MaxTicks + 1,
		in:  direction{perByte: perByte(p.MinReadRate, k.Tick), credit: ticks(inTicks(mostCredit)), soonest: clock.MaxTicks + 1, silence: clock.MaxTicks + 1},
		out: direction{perByte: perByte(p.MinWriteRate, k.Tick), credit: ticks(inTicks(mostCredit)), soonest: clock.MaxTicks + 1, silence: clock.MaxTicks + 1},
	}
	for r := ReasonIdle; r < numLimits; r++ {
		l := &limits[r]
		allowed := l.allowed(&p)
		if allowed == 0 {
			continue
		}
		t := deadlines.Terms{Limit: uint8(r), Counts: l.counts, Ticks: inTicks(allowed)}
		first := t.Ticks
		switch {
		case r == ReasonMaxAge:
			t.Jitter, t.Grace = inTicks(p.MaxAgeJitter), inTicks(p.MaxAgeGrace)
		case r == ReasonHeartbeat && !p.Heartbeat.Passive:
			t.Interval, t.Pong, t.Misses = inTicks(p.Heartbeat.Interval), inTicks(p.Heartbeat.Timeout), p.Heartbeat.misses()
			t.Jitter = min(inTicks(p.Heartbeat.Jitter), t.Interval)
			first = max(1, t.Interval-max(0, t.Jitter-1))
		}
		ph.limits = append(ph.limits, t)
		ph.bringsUp(l.counts, first)
	}
	ph.first = ph
	ph.current.Store(ph)
	return ph
}

// bringsUp records that a limit with this clock may come due after the given number of ticks.
func (p *Phase) bringsUp(from deadlines.Basis, ticks int64) {
	after := uint32(ticks) + 1
	switch from {
	case deadlines.OfLife:
		p.aged = true
		return
	case deadlines.OfReads:
		p.in.counted = ticks
		p.in.soonest = min(p.in.soonest, after)
	case deadlines.OfRead:
		p.in.silence = after
		p.in.soonest = min(p.in.soonest, after)
	case deadlines.OfWrites:
		p.out.counted = ticks
		p.out.soonest = min(p.out.soonest, after)
	case deadlines.OfWrite:
		p.out.silence = after
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

// SetPolicy replaces the policy under which connections begin; see [Phase.SetPolicy]. p must set
// a limit, like the policy given to [New].
func (t *Tracker) SetPolicy(p Policy) error {
	t.mustBeMade()
	if !p.SetsLimit() {
		return errNoLimit()
	}
	return t.phase.SetPolicy(p)
}

// SetPolicy replaces the policy of the phase, also for the connections that are in it. Any
// goroutine may call it.
//
// No connection is ended by the old policy once SetPolicy has returned, except for one that an
// event loop is ending at that moment. A longer limit therefore holds at once. Callbacks about a
// connection that was ended before may still follow. A shorter limit counts from the same event
// as before, such as the last activity. The tracker checks all connections in the background, a
// million of them in less than a second.
//
// Some limits need an account that the old policy may not have kept: ReadTotal, the minimum
// rates, and a Heartbeat that was off or of the other form. These begin after the call, when the
// connection is checked.
//
// If p has no Name, the phase keeps its name. SetPolicy fails with [ErrClosed] if the tracker is
// closed. It also fails if p is not valid for [Tracker.Phase], and if p has an active
// Heartbeat but connections were tracked with Hooks that have no Ping, or if the phase
// is [Tracker.Initial] and p conflicts with the [Capacity] that is set. Then nothing changes.
func (ph *Phase) SetPolicy(p Policy) error {
	if ph == nil {
		panic("idle: SetPolicy of a nil Phase; did Tracker.Phase return an error?")
	}
	return ph.first.tracker.replace(ph, p)
}

// errPhasesOnly is the error for a change of the initial phase of an HTTP listener's tracker.
var errPhasesOnly = errors.New("idle: no connection of this tracker has its initial policy, because all are in other phases; use Phase.SetPolicy of those, or SetTimeouts of an HTTP listener")

// replace replaces the policy of a phase.
func (t *Tracker) replace(phase *Phase, p Policy) error {
	if t.opts.PhasesOnly && phase.first == t.phase.first {
		return errPhasesOnly
	}
	t.mu.Lock()
	p.Name = cmp.Or(p.Name, phase.Policy().Name)
	err := p.validate(t.opts.Tick)
	switch beat := p.Heartbeat; {
	case err != nil:
	case t.closed:
		err = ErrClosed
	case beat.Interval > 0 && !beat.Passive && t.pingless.Load():
		err = fmt.Errorf("idle: the policy has an active Heartbeat (every %v), but connections are tracked that cannot be pinged; set Ping from the beginning, or use the Passive form", beat.Interval)
	case phase.first == t.phase.first:
		err = t.room.limit.Load().suits(t, p)
	}
	if err == nil {
		t.renew(phase, p)
		t.begin(&t.renewals)
	}
	t.mu.Unlock()
	if err == nil {
		t.settleEnds()
	}
	return err
}

// settleEnds waits until no shard of the driver ends a connection by a policy that was replaced
// before the call: Shard.end loads the policy under the shard's lock. t.mu must not be held,
// because Track may take it under the lock of a shard.
func (t *Tracker) settleEnds() {
	for _, s := range t.own {
		func() { // the pass that had the lock has unlocked it
			s.lock.Lock()
			defer s.lock.Unlock()
		}()
	}
}

// renewed visits some connections after a policy was replaced. What a pass has taken
// out of the wheel follows in replace. If both followed at once, a wait that begins meanwhile
// could lose what one of them has let off: see flow.await.
func renewed(s *Shard, some []*Conn) {
	s.lock.Lock()
	defer s.lock.Unlock()
	for _, c := range some {
		if p := c.phase.Load(); p == p.latest() {
			continue
		}
		if c.Live() && c.timer.Pending() && c.follow(s.clock) {
			m := clock.Moment{Now: s.clock.Recent()}
			if at := s.next(c, m).At; int32(c.placed.Load()-uint32(at)) > 0 {
				s.place(c, m)
			}
		}
	}
}
