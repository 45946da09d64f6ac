package idle

import (
	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// Connections use these methods of their shard: the time, and their places in its wheel.

func (s *Shard) stamp() clock.Stamp {
	now := s.now.Load()
	if now.Asleep() {
		now = s.clock.Read()
	}
	return now
}

// noticed returns a stamp that no later activity's is before. now is the tick that has settled. Unlike
// stamp, it doesn't wake the clock.
func (s *Shard) noticed(now int64) clock.Stamp {
	if copied := s.now.Load(); !copied.Asleep() {
		return copied
	}
	return clock.StampOf(now)
}

// instant returns the current time in ns of the clock, and its stamp. If exact is set they come from the real clock, otherwise from
// its copy, and then the time is that at which the tick began.
func (s *Shard) instant(exact bool) (stamp clock.Stamp, ns int64) {
	if !exact {
		stamp = s.stamp()
		return stamp, s.clock.Start(stamp)
	}
	now := s.clock.Elapsed()
	return clock.StampOf(int64(now / s.clock.Tick)), int64(now)
}

// look loads the words of c at the moment m, and what the drain d, if it isn't nil, does to it. The limits must have been loaded
// before, and the lock must not be held.
func (s *Shard) look(c *Conn, m clock.Moment, d *Draining) snapshot {
	snap := c.snapshot(m)
	if d != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		snap.drain = s.turnOf(c, d)
	}
	return snap
}

// next returns the next deadline of c. The lock must be held.
func (s *Shard) next(c *Conn, m clock.Moment) deadline {
	l := c.limits()
	snap := c.snapshot(m) // a statement of its own, or it would be copied twice
	if d := s.tracker.draining.Load(); d != nil {
		snap.drain = s.turnOf(c, d)
	}
	return l.next(&snap)
}

// advance moves the wheel to the present, which isn't always for free. The lock must be held.
func (s *Shard) advance(now int64) {
	if s.wheel.Now() < uint64(now) {
		s.wheel.Advance(uint64(now))
	}
}

// place schedules c, which must be live, for its deadline. The lock must be held.
func (s *Shard) place(c *Conn, m clock.Moment) {
	s.advance(m.Now)
	s.placeAt(c, s.next(c, m).at, m)
}

// placeAt is place for a connection whose deadline has just been computed to be at
// the tick at. It computes it again after storing it because of this race:
//
//	pass:   computes the deadline at
//	reader: starts a wait with an earlier deadline; c.placed is earlier still, so it does not move c
//	pass:   stores at in c.placed
func (s *Shard) placeAt(c *Conn, at int64, m clock.Moment) {
	s.schedule(c, at)
	for now := s.next(c, m).at; now < at; now = s.next(c, m).at {
		at = now
		s.schedule(c, at)
	}
}

// schedule puts c in the wheel for the tick at. The lock must be held.
func (s *Shard) schedule(c *Conn, at int64) {
	c.placed.Store(clock.StampOf(at))
	s.arm(c, at)
}

// arm is schedule for a connection whose placed has been stored.
func (s *Shard) arm(c *Conn, at int64) {
	next := int64(s.wheel.Schedule(&c.timer, uint64(max(at, 0))))
	if next < s.due.Load() { // a pass sets it at its end in any case
		s.due.Store(next)
		if s.now.Load().Asleep() { // otherwise the driver reads due in the next tick
			s.clock.Hurry()
		}
	}
}

// hasten makes sure that c is checked no later than at the given stamp. Usually its place in the
// wheel is early enough.
func (s *Shard) hasten(c *Conn, deadline uint32) {
	if int32((*word)(&c.placed).Load()-deadline) > 0 {
		s.pull(c)
	}
}

// pull is bringForward without the lock.
func (s *Shard) pull(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bringForward(c, clock.Moment{Now: s.clock.Recent()})
}

// bringForward gives c an earlier place, if its deadline is earlier. The lock must be held.
func (s *Shard) bringForward(c *Conn, m clock.Moment) {
	if c.state.Load()&(live|asking) != live || !c.timer.Pending() { // it will be put back
		return
	}
	if at := s.next(c, m).at; int32(c.placed.Load().Bits()-uint32(at)) > 0 {
		s.stats.EarlyReschedules++
		s.advance(m.Now)
		s.placeAt(c, at, m)
	}
}
