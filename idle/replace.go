package idle

import (
	"cmp"
	"errors"
	"fmt"
)

// SetPolicy replaces the policy under which connections begin: see [Phase.SetPolicy].
// It must set a limit, as the policy given to [New] must.
func (t *Tracker) SetPolicy(p Policy) error {
	t.mustBeMade()
	if t.opts.PhasesOnly {
		return errors.New("idle: SetPolicy: no connection of this tracker has its policy, because all are in phases; use Phase.SetPolicy, or SetTimeouts of an HTTP listener")
	}
	if !p.setsLimit() {
		return errNoLimit()
	}
	return t.phase.SetPolicy(p)
}

// SetPolicy replaces the policy of the phase, for the connections that are in it too. Any
// goroutine may call it.
//
// No connection is ended by the old policy once SetPolicy has returned, except for one that an
// event loop is ending at that moment. A longer limit therefore holds at once. Callbacks
// about a connection that was ended before may still follow. A shorter limit counts from
// where it always counts, such as the last activity: a connection that has been idle for longer than a new IdleTimeout
// is ended as soon as the tracker has looked at it. It looks at all connections in the
// background, at a million of them in less than a second.
//
// Some limits need an account that the old policy may not have kept: ReadTotal, the
// minimum rates, and a Heartbeat of the other form. These count from now.
//
// If p has no Name, it keeps its name. SetPolicy fails with [ErrClosed] if the
// tracker is closed. It also fails if p is not valid for [Tracker.Phase], and if p has an active Heartbeat but connections were
// tracked with Hooks that have no Ping. Then nothing changes. It panics if the phase is nil.
func (ph *Phase) SetPolicy(p Policy) error {
	if ph == nil {
		panic("idle: SetPolicy of a nil Phase; did Tracker.Phase return an error?")
	}
	_, err := ph.first.tracker.replace(ph, p, nil)
	return err
}

// CompareAndReplace replaces the policy of a phase as [Phase.SetPolicy] does, if that is at the
// given version; see [Phase.Version]. It reports whether it was. If p is the present policy
// nothing is done, and the version stays. It is for those who make the new policy from the
// present one, beside others who may replace it.
func (t *Tracker) CompareAndReplace(phase *Phase, version uint64, p Policy) (replaced bool, err error) {
	return t.replace(phase, p, &version)
}

// replace replaces the policy of a phase, if that is at the given version or if version is nil.
func (t *Tracker) replace(phase *Phase, p Policy, version *uint64) (replaced bool, err error) {
	t.mustBeMade()
	switch {
	case phase == nil:
		panic("idle: CompareAndReplace(nil, ...); did Phase return an error?")
	case phase.clock != t.clock:
		return false, fmt.Errorf("idle: CompareAndReplace of phase %q of another tracker; call it on the one that made the phase", phase.Policy().Name)
	}
	defer func() {
		if replaced {
			t.settleEnds()
		}
	}()
	t.mu.Lock()
	defer t.mu.Unlock()
	now, is := phase.Version()
	p.Name = cmp.Or(p.Name, now.Name)
	if err := p.validate(t.opts.Tick); err != nil {
		return false, err
	}
	switch beat := p.Heartbeat; {
	case t.closed:
		return false, ErrClosed
	case beat.Interval > 0 && !beat.Passive && t.pingless.Load():
		return false, fmt.Errorf("idle: the policy has an active Heartbeat (every %v), but connections are tracked that cannot be pinged; set Ping from the beginning, or use the Passive form", beat.Interval)
	case version != nil && is != *version:
		return false, nil
	case version != nil && now == p:
		return true, nil
	}
	t.renew(phase, newPhase(t.clock, p))
	t.follow()
	return true, nil
}

// settleEnds waits until no driver's shard ends a connection by a policy that was replaced
// before the call. Shard.end looks at the policy under the lock. It must be called without
// t.mu, as Track may take that under the lock of a shard.
func (t *Tracker) settleEnds() {
	for _, s := range t.own {
		s.awaitLock()
	}
}

// awaitLock waits until whoever has the lock has unlocked it.
func (s *Shard) awaitLock() {
	s.lock.Lock()
	defer s.lock.Unlock()
}

// follow starts a walk by which all connections follow replaced policies. A shard in which
// another one waits need not make it. t.mu must be held.
func (t *Tracker) follow() {
	t.startWalk(&walk{visit: followed, instead: t})
}

// followed is what a walk visits connections with after a policy was replaced.
func followed(s *Shard, c *Conn) {
	if p := c.phase.Load(); p == p.latest() {
		return
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	if c.Live() && c.follow(s.clock) && c.timer.Pending() {
		if m := (moment{now: s.clock.Recent()}); int32(c.placed.Load()-uint32(c.next(m).at)) > 0 {
			s.place(&c.entry, m)
		}
	}
}
