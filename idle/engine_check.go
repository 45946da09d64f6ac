package idle

import (
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// A decision is what is due for a connection at a moment.
type decision struct {
	deadline
	clock.Moment
	stamp  clock.Stamp // of the same moment; no activity after it has an earlier one
	limits *limits
	drain  *Draining // nil without one
}

// decide checks a connection again, because there may have been activity or a new phase since the
// last check. due is false if nothing is due any more or the connection has ended. A connection
// that is still live has then been put back into the wheel.
//
// The decision can end the connection only if the flag ending was set before, and no
// reader has cleared it since. See [Conn.Deliver].
func (s *Shard) decide(c *Conn) (v decision, due bool) {
	// The clock is read before the limits. The other order would allow this:
	//
	//	check:  loads the limits
	//	Enter: restarts all clocks, and stores a phase with longer limits
	//	check:  is preempted, reads the clock, and finds a limit of the old phase passed
	v.Moment = s.clock.Moment()
	v.stamp = s.noticed(v.Now)
	v.limits, v.drain = c.limits(), s.tracker.draining.Load()
	snap := s.look(c, v.Moment, v.drain)
	v.deadline = v.limits.next(&snap)
	switch {
	case !c.Live():
		return v, false
	case v.at > v.Now || v.what == evAgain:
		s.replace(c)
		return v, false
	}
	return v, true
}

// check does what is due for a connection that a pass has found due. No lock is
// held. The connection is not in the wheel, so no other pass sees it until it is
// put back.
func (s *Shard) check(c *Conn) {
	if c.state.Load()&asking != 0 { // only a drain ends it, unless it was cancelled meanwhile
		if d := s.tracker.draining.Load(); d.forces(s.clock.Settled()) {
			s.dismiss(dismissal{conn: c, reason: ReasonDrain, forced: true, drain: d})
		}
		return
	}
	c.state.move(live, ending, 0)
	v, due := s.decide(c)
	if due && v.departs() {
		if !s.depart(c, v) {
			return
		}
		c.state.move(live, ending, 0)
		v, due = s.decide(c)
	}
	for examined := 0; due && v.isDoubtful(c) && examined&(1<<v.by) == 0; v, due = s.decide(c) {
		examined |= 1 << v.by
		s.probe(c, v.by, false)
	}
	if due && v.isMiss() {
		s.note(func(st *Stats) { st.Misses++ })
	}
	switch {
	case !due:
	case v.what == evPing:
		c.state.move(live, 0, missMask)
		s.ping(c, v)
	case v.what == evMiss:
		c.state.Add(missUnit) // there are fewer than maxMisses
		s.ping(c, v)
	case v.what == evTell:
		s.tell(c, v)
	case v.what == evMeasure:
		s.measure(c)
	case v.departs(): // due since depart was tried, or behind a limit that Probe found not to have passed; a later check tries it
		s.replace(c)
	case c.hooks.OnTimeout != nil && v.by != ReasonMaxAge:
		s.ask(c, v)
	default:
		s.timeOut(c, v)
	}
}

// departs reports whether a drain ends the connection, unless it's in use.
func (v *decision) departs() bool { return v.what == evEnd && v.by == ReasonDrain }

// isDoubtful reports whether the owner could find out that the limit hasn't passed.
func (v *decision) isDoubtful(c *Conn) bool {
	return v.what == evEnd && v.by < numLimits && v.by != ReasonMaxAge && c.hooks.Probe != nil
}

// probe asks the owner what it can find out about c, and applies that. After a farewell the last output doesn't count.
func (s *Shard) probe(c *Conn, about Reason, farewell bool) (e SocketState) {
	s.tracker.calls.Guard("Probe", func() { e = c.hooks.Probe(c.owner, about) })
	if !c.Live() {
		return e
	}
	if farewell {
		e.Out = 0
	}
	now := s.clock.Settled()
	start := now * int64(s.clock.Tick)
	if stamp, ok := s.clock.StampAgo(e.In); ok && !e.Unread {
		c.lastIn.Raise(stamp)
	}
	if stamp, ok := s.clock.StampAgo(e.Out); ok {
		c.lastOut.Raise(stamp)
	}
	if e.Doubt > 0 {
		c.out.rewait(start-int64(e.Doubt), false)
	}
	if e.OutEmpty || e.NotWriting && c.out.waits() {
		c.out.rewait(start, false)
		c.letOff(&c.out)
	}
	l := c.limits()
	if e.Unreported > 0 && l.out.rate > 0 {
		c.pay(&c.out, &l.out, e.Unreported)
	}
	if e.UnreportedIn > 0 && l.in.rate > 0 {
		c.pay(&c.in, &l.in, e.UnreportedIn)
	}
	if e.Unread && !c.hasUnread() {
		c.unread.Raise(clock.StampOf(now - 1)) // no activity has an earlier tick, so any lets unread input count again
	}
	return e
}

// ping calls Ping. The ping counts from the decision v. If another goroutine has entered a phase since, its answer isn't
// awaited:
//
//	check: finds a ping due
//	Enter: restarts all limits, and raises pinged to v.stamp or later
//	check: records the ping
//
// Each ping before has an earlier stamp than v.stamp. v.Now wouldn't do: stamps lag behind it if the process
// has stood still. If Enter comes right between the two stores below, the new phase does await the answer. But it
// waits for the whole Timeout.
func (s *Shard) ping(c *Conn, v decision) {
	if c.pinged.Load().Sub(v.stamp) < 0 {
		c.pinged.Raise(v.stamp)
		c.state.move(0, unanswered, 0)
	}
	s.replace(c)
	s.callOnce(c, pinging, "Ping", func() {
		s.note(func(st *Stats) { st.Pings++ })
		_ = c.hooks.Ping(c.owner) // if it fails, a miss follows
	})
}

// tell asks the owner to finish, unless it is being asked already. The grace counts from now, even if that comes late.
func (s *Shard) tell(c *Conn, v decision) {
	now := s.clock.Now()
	c.told.Raise(clock.StampOf(now))
	if v.by == ReasonDrain {
		s.lookAgain(c, v.drain, now+1+v.drain.grace)
	}
	s.replace(c)
	if c.hooks.OnDrain != nil {
		s.callOnce(c, telling, "OnDrain", func() { c.hooks.OnDrain(c.owner) })
	}
}

// measure has all further waits of c measured by the real clock. What was waited before is let off, because it was counted by
// the coarse one.
func (s *Shard) measure(c *Conn) {
	c.state.move(live, exact, 0)
	c.letOff(&c.in)
	c.letOff(&c.out)
	s.replace(c)
}

// ask calls OnTimeout and acts on the answer. The flag asking stays set until the connection is put back.
func (s *Shard) ask(c *Conn, v decision) {
	s.mu.Lock()
	asked := c.state.move(live, asking, ending)
	if asked {
		s.awaitForce(c)
	}
	s.mu.Unlock()
	if !asked { // it has ended
		return
	}
	err, keep := s.errorOf(&v), false
	s.call("OnTimeout", func() { keep = c.Live() && c.hooks.OnTimeout(c.owner, err) }, func() {
		if keep {
			s.note(func(st *Stats) { st.Extended++ })
			stamp, now := s.instant(true)
			c.keep(v.by, stamp, now)
			s.replace(c)
			return
		}
		if !c.Live() {
			return
		}
		// If the answer took long, Probe must be called once more. Otherwise Probe would find the
		// same, but the ages in SocketState are inexact: one could turn out a little younger, so
		// that OnTimeout would be called again.
		c.state.move(live, ending, 0)
		last, due := s.decide(c)
		if due && last.isSame(v) && v.isDoubtful(c) && last.Now-v.Now > answeredAtOnce {
			s.probe(c, v.by, v.by == ReasonIdle) // OnTimeout may have written one
			last, due = s.decide(c)
		}
		if due && last.isSame(v) {
			s.timeOut(c, last)
		} else if due {
			s.replace(c)
		}
	})
}

// answeredAtOnce is how many ticks an answer may take and still count as
// immediate.
const answeredAtOnce = 2

// timeOut ends a connection that has passed a limit, unless a reader has delivered something
// meanwhile.
func (s *Shard) timeOut(c *Conn, v decision) {
	inForce := func(l *limits) bool { return l == v.limits }
	if !s.end(c, inForce, live|ending, s.errorOf(&v), max(v.After(v.at), 0)) {
		s.replace(c)
	}
}

// end ends a connection, if it has the flags in need, and reports whether it did; see untrack.
func (s *Shard) end(c *Conn, inForce func(*limits) bool, need uint32, err *TimeoutError, late time.Duration) bool {
	if !s.untrack(c, endRecord{err: err, late: late, forced: need&ending == 0}, need, over|ending, inForce) {
		return false
	}
	if c.hooks.OnEnd == nil {
		s.expire(c, err)
		return true
	}
	onEnd, expire := func() { c.hooks.OnEnd(c.owner, err) }, func() { s.expire(c, err) }
	if !s.loop { // OnEnd may wait for what only Expire ends
		expire = sync.OnceFunc(expire)
		onEnd = func() {
			defer time.AfterFunc(patience, expire).Stop()
			c.hooks.OnEnd(c.owner, err)
		}
	}
	s.call("OnEnd", onEnd, expire)
	return true
}

// awaitEnds waits until no pass ends a connection by a policy, a drain or a capacity that has just been replaced. It doesn't wait
// for loops.
func (t *Tracker) awaitEnds() {
	for _, s := range t.own {
		s.note(func(*Stats) {}) // who locks later sees the new one
	}
}

// patience is how long OnEnd may take, and how long Close waits for callbacks.
const patience = time.Second

func (s *Shard) expire(c *Conn, err *TimeoutError) {
	defer s.tracker.calls.Survive("Expire")
	c.hooks.Expire(c.owner, err)
}

// isSame reports whether v ends the connection by the same limit as other.
func (v *decision) isSame(other decision) bool {
	return v.what == evEnd && v.by == other.by
}

// isMiss reports whether a ping has stayed unanswered. It may be the last miss,
// which ends the connection.
func (v *decision) isMiss() bool {
	return v.what == evMiss || v.what == evEnd && v.by == ReasonHeartbeat && v.limits.interval > 0
}

// errorOf returns a decision as an error for the owner.
func (s *Shard) errorOf(v *decision) *TimeoutError {
	p := &v.limits.policy
	err := &TimeoutError{Reason: v.by, Phase: p.Name, Limit: table[v.by].allowed(p), Elapsed: v.After(v.from)}
	err.Setting = s.tracker.Setting(err.Phase, err.Reason)
	switch v.by {
	case ReasonMinReadRate:
		err.Rate = p.MinReadRate
	case ReasonMinWriteRate:
		err.Rate = p.MinWriteRate
	}
	return err
}

// replace puts a connection back into the wheel after a pass has taken it out, if it's still live. Nobody finds it
// there with a flag of what is over.
func (s *Shard) replace(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.state.move(live, 0, ending|asking) {
		s.place(c, s.clock.Moment())
	}
}

// call runs a callback that may block, and then the function then. It runs them
// on the loop if there is one, and otherwise on a goroutine of their own.
func (s *Shard) call(name string, callback, then func()) {
	if s.loop {
		defer then() // also after a runtime.Goexit
		s.tracker.calls.Guard(name, callback)
		return
	}
	s.onGoroutine(name, callback, then)
}

// callOnce is call for a callback of a live connection that isn't running already, as the flag says.
func (s *Shard) callOnce(c *Conn, flag uint32, name string, callback func()) {
	if !c.state.move(live, flag, 0) {
		return
	}
	s.call(name, func() {
		if c.Live() {
			callback()
		}
	}, func() { c.state.drop(flag) })
}

// onGoroutine runs a callback on a goroutine of its own, and then the function then.
func (s *Shard) onGoroutine(name string, callback, then func()) {
	s.tracker.calls.Running.Begin()
	go func() {
		defer s.tracker.calls.Running.End()
		defer then()
		s.tracker.calls.Guard(name, callback)
	}()
}
