package idle

import (
	"cmp"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// Phase is a [Policy] prepared for the connections of one tracker. Any number of
// connections and goroutines may use it; see [Conn.Enter]. [Phase.SetPolicy] replaces
// its policy.
type Phase struct {
	now     atomic.Pointer[limits]
	tracker *Tracker
}

// limits returns the limits in force.
func (p *Phase) limits() *limits { return p.now.Load() }

// Policy returns the current policy of the phase.
func (p *Phase) Policy() Policy { return p.limits().policy }

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
	ph := &Phase{tracker: t}
	ph.now.Store(t.limitsOf(p, nil))
	return ph, nil
}

// limitsOf returns the limits of p. was are those that they replace, or nil.
func (t *Tracker) limitsOf(p Policy, was *limits) *limits {
	l := limitsOf(p, t.clock, was)
	l.ended = t.byPhase.of(p.Name)
	return l
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

// errPhasesOnly is the error for a change of the initial phase of an HTTP listener's tracker.
var errPhasesOnly = errors.New("idle: no connection of this tracker has its initial policy, because all are in other phases; use Phase.SetPolicy of those, or SetTimeouts of an HTTP listener")

// SetPolicy replaces the policy of the phase, also for the connections that are in it. Any
// goroutine may call it.
//
// No connection is ended by the old policy once SetPolicy has returned, except for one that an
// event loop is ending at that moment. A longer limit therefore holds at once. Callbacks that were
// decided upon before may still follow. A shorter limit counts from the same event
// as before, such as the last activity. A ping that waits for its answer goes on waiting; if the new Heartbeat is longer, all of it
// counts from the last input. The tracker checks all connections in the background, a
// million of them in less than a second.
//
// Some limits need an account that the old policy may not have kept: the minimum
// rates, a Heartbeat that was off or of the other form, and IdleTimeout if ExplicitUse was not set. These count
// from the call. If a minimum rate looks missed by the new policy and waits haven't been measured (see [Policy]),
// its Grace starts over. What bytes have paid in advance under an earlier minimum rate may still count.
//
// If p has no Name, the phase keeps its name. SetPolicy fails with [ErrClosed] if the tracker is
// closed. It also fails if p is not valid for [Tracker.Phase], and if p has an active
// Heartbeat but connections were tracked with Hooks that have no Ping, or if the phase
// is [Tracker.Initial] and p conflicts with the [Capacity] that is set. Then nothing changes.
func (p *Phase) SetPolicy(policy Policy) error {
	if p == nil {
		panic("idle: SetPolicy of a nil Phase; did Tracker.Phase return an error?")
	}
	t := p.tracker
	if t.opts.PhasesOnly && p == t.phase {
		return errPhasesOnly
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	policy.Name = cmp.Or(policy.Name, p.Policy().Name)
	err := policy.validate(t.opts.Tick)
	switch beat := policy.Heartbeat; {
	case err != nil:
	case t.closed:
		err = ErrClosed
	case beat.Interval > 0 && !beat.Passive && t.pingless.Load():
		err = fmt.Errorf("idle: the policy has an active Heartbeat (every %v), but connections are tracked that cannot be pinged; set Ping from the beginning, or use the Passive form", beat.Interval)
	case p == t.phase:
		err = t.room.limit.Load().suits(t, policy)
	}
	if err != nil {
		return err
	}
	p.now.Store(t.limitsOf(policy, p.limits()))
	t.begin(&t.renewals)
	t.awaitEnds()
	return nil
}

// renewed visits some connections after a policy was replaced, and brings forward the deadlines that are earlier now.
func renewed(s *Shard, some []*Conn) {
	s.lock()
	defer s.unlock()
	m := clock.Moment{Now: s.clock.Recent()}
	for _, c := range some {
		s.bringForward(c, m)
	}
}
