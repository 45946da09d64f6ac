package idle

import (
	"github.com/idlewheel/idlewheel/idle/internal/clock"
	"github.com/idlewheel/idlewheel/idle/internal/deadlines"
)

// Connections use these methods of their shard: the time, and their places in its wheel.

// stamp returns the current stamp.
func (s *Shard) stamp() clock.Stamp {
	if now := s.now.Load(); !now.Asleep() {
		return now
	}
	return s.clock.Read()
}

// noticed returns a stamp that no later activity's is before. now is the tick that has settled. Unlike
// stamp, it doesn't wake the clock.
func (s *Shard) noticed(now int64) clock.Stamp {
	if copied := s.now.Load(); !copied.Asleep() {
		return copied
	}
	return clock.StampOf(now)
}

// instant returns the current instant and its stamp. If counted is set they come
// from the real clock, otherwise from its copy.
func (s *Shard) instant(counted bool) (stamp clock.Stamp, at clock.Instant) {
	if !counted {
		stamp = s.stamp()
		return stamp, stamp.Start()
	}
	at = s.clock.Instant()
	if stamp = clock.StampOf(int64(at.Bits())); stamp.Bits() != at.Bits() { // this tick has the stamp of the next one; see StampOf
		at = stamp.Start()
	}
	return stamp, at
}

// restamp is the slow path of an activity. It stores now in use, or in keepalive if the
// activity is the ping or answer that the flag announces. It runs once a tick for each
// direction of a connection. After a keepalive it runs again in the same tick, so that use in
// that tick counts. While the clock sleeps it runs for each activity.
//
// If the connection was used in the tick of the ping, the ping or its answer may have taken
// the fast path. Then the flag is out of date.
func (s *Shard) restamp(c *Conn, now clock.Stamp, use, keepalive *clock.AtomicStamp, flag uint32) {
	at := use
	if c.state.Load()&flag != 0 && c.state.move(flag, 0, flag) && use.Load().Sub(c.pinged.Load()) < 0 {
		at = keepalive
	}
	if s.loop {
		at.Store(now) // on a loop nobody else can have stored a later one
	} else {
		at.Raise(now)
	}
	c.state.drop(granted)
	if n := s.slowPaths.Load(); n < clock.FewSlowPaths {
		s.slowPaths.Store(n + 1)
	}
}

// pay moves f.paid forward. On a loop nobody else changes it at the same time, so
// that needs no locked instruction.
func (s *Shard) pay(f *flow, ticks int64) {
	if s.loop {
		f.paid.Store(f.paid.Load().Add(ticks))
	} else {
		f.paid.Add(ticks)
	}
}

// look loads the words of c at the moment m, and what a drain does to it. The phase must have been loaded
// before, and the lock must not be held.
func (s *Shard) look(c *Conn, m clock.Moment) deadlines.Snapshot {
	if s.tracker.draining.Load() == nil {
		return c.snapshot(m)
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.lookLocked(c, m)
}

// lookLocked is look with the lock held.
func (s *Shard) lookLocked(c *Conn, m clock.Moment) deadlines.Snapshot {
	snap := c.snapshot(m)
	if s.tracker.draining.Load() != nil {
		snap.Drain = s.drainOf(c)
	}
	return snap
}

// next returns the next deadline of c. The lock must be held.
func (s *Shard) next(c *Conn, m clock.Moment) deadlines.Deadline {
	p := c.phase.Load()
	snap := s.lookLocked(c, m)
	return deadlines.Next(&snap, p.limits)
}

// place schedules c, which must be live, for its deadline. The lock must be held.
func (s *Shard) place(c *Conn, m clock.Moment) {
	s.wheel.Advance(uint64(m.Now))
	s.placeAt(c, s.next(c, m).At, m)
}

// placeAt is place for a connection whose deadline has just been computed to be at
// the tick at. It computes it again after storing it because of this race:
//
//	pass:   computes the deadline at
//	reader: starts a wait with an earlier deadline; c.placed is earlier still, so it does not move c
//	pass:   stores at in c.placed
func (s *Shard) placeAt(c *Conn, at int64, m clock.Moment) {
	s.schedule(c, at)
	for now := s.next(c, m).At; now < at; now = s.next(c, m).At {
		at = now
		s.schedule(c, at)
	}
}

// schedule puts c in the wheel for the tick at. The lock must be held.
func (s *Shard) schedule(c *Conn, at int64) {
	c.placed.Store(uint32(at))
	next := int64(s.wheel.Schedule(&c.timer, uint64(max(at, 0))))
	if next < s.due.Load() { // not during a pass: then due has passed, and announce sets it at the end
		s.due.Store(next)
		if s.now.Load().Asleep() { // otherwise the driver reads due in the next tick
			s.clock.Hurry()
		}
	}
}

// add adds c to conns, and remove removes it, if it is there. The lock must be held.
func (s *Shard) add(c *Conn) {
	if s.turns != nil {
		s.addTurn(c)
	}
	s.conns.add(c)
}

func (s *Shard) remove(c *Conn) {
	if !s.conns.has(c) {
		return
	}
	if s.turns != nil {
		s.turns.remove(int(c.index))
	}
	s.conns.remove(c)
}

// forget takes c, which is ending, out of the wheel and of conns. The lock must be held.
func (s *Shard) forget(c *Conn) {
	s.wheel.Cancel(&c.timer)
	s.remove(c)
}

// hasten makes sure that c is checked no later than at the given stamp. Usually its place in the
// wheel is early enough.
func (s *Shard) hasten(c *Conn, deadline uint32) {
	if int32(c.placed.Load()-deadline) > 0 {
		s.pull(c)
	}
}

// pull moves c to the place of its deadline, which may be an earlier one.
func (s *Shard) pull(c *Conn) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if c.Live() && c.timer.Pending() { // otherwise a pass has taken it out, and will compute its deadline
		s.counts.reschedules.Add(1)
		s.place(c, clock.Moment{Now: s.clock.Recent()})
	}
}
