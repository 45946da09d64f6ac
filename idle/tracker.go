package idle

import (
	"maps"
	"sync/atomic"
)

// Tracker tracks connections and times them out. All its methods may be called
// by any goroutine. It has one goroutine, the driver, which sleeps while there
// is nothing to do, and which [Tracker.Close] ends.
type Tracker struct {
	base
	turn          atomic.Uint32 // by which Track chooses a shard
	stop, stopped chan struct{}
}

// Phase makes p ready for [Conn.Enter]. A Policy that sets no limit is allowed:
// it makes a phase in which a connection is exempt.
func (t *Tracker) Phase(p Policy) (*Phase, error) {
	t.mustBeMade()
	if err := p.validate(t.opts.Tick); err != nil {
		return nil, err
	}
	return newPhase(t.clock, p), nil
}

// mustBeMade panics if t was not made by New.
func (t *Tracker) mustBeMade() {
	if t == nil || t.clock == nil {
		panic("idle: a nil or zero Tracker; make one with New, and see whether it returned an error")
	}
}

// Policy returns the policy under which connections begin.
func (t *Tracker) Policy() Policy {
	t.mustBeMade()
	return t.phase.policy
}

// Track begins to track c; see [Shard.Track]. It chooses the shard, and may be
// called by any goroutine.
func (t *Tracker) Track(c *Conn, owner any, h *Hooks) error {
	t.mustBeMade()
	return t.own[t.turn.Add(1)%uint32(len(t.own))].Track(c, owner, h)
}

// NewShard makes a shard for an event loop, on which nothing is locked: all its
// methods, and those of its connections, must be called on the loop.
//
// When something is due, the tracker's driver calls execute, which must have
// the loop call pass soon, once, and must not call it itself; there is at most
// one pass on its way. If execute fails it is tried again at the next tick.
// [Hooks] run on the loop, inside the pass.
func (t *Tracker) NewShard(execute func(pass func()) error) (*Shard, error) {
	t.mustBeMade()
	if execute == nil {
		panic("idle: NewShard(nil); pass the function that has the loop call a pass")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, ErrClosed
	}
	s := t.newShard(execute)
	t.loops = append(t.loops, s)
	return s, nil
}

// Stats returns the present counts.
func (t *Tracker) Stats() Stats {
	t.mustBeMade()
	t.mu.Lock()
	defer t.mu.Unlock()
	st := t.past
	st.TimedOut = maps.Clone(st.TimedOut)
	st.Panics = t.calls.panics.Load()
	for _, s := range t.own {
		s.counts.addTo(&st)
	}
	for _, s := range t.loops {
		s.counts.addTo(&st)
	}
	return st
}
