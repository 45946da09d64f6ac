package idle

import (
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
	"github.com/idlewheel/idlewheel/idle/internal/deadlines"
)

// A decision is what is due for a connection at a moment.
type decision struct {
	deadlines.Deadline
	clock.Moment
	stamp clock.Stamp // of the same moment; no activity after it has an earlier one
	phase *Phase
}

// decide checks a connection again, because there may have been activity or a new phase since the
// last check. due is false if nothing is due any more or the connection has ended. A connection
// that is still live has then been put back into the wheel.
//
// The decision can end the connection only if the flag ending was set before, and no
// reader has cleared it since. See [Conn.Deliver].
func (s *Shard) decide(c *Conn) (v decision, due bool) {
	// The clock is read before the phase. The other order would allow this:
	//
	//	check:  loads the phase
	//	Enter: restarts all clocks, and stores a phase with longer limits
	//	check:  is preempted, reads the clock, and finds a limit of the old phase passed
	v.Moment = s.clock.Moment()
	v.stamp = s.noticed(v.Now)
	c.follow(s.clock)
	v.phase = c.phase.Load()
	snap := s.look(c, v.Moment)
	v.Deadline = deadlines.Next(&snap, v.phase.limits)
	switch {
	case !c.Live():
		return v, false
	case v.At > v.Now || v.What == deadlines.Again:
		s.replace(c)
		return v, false
	}
	return v, true
}

// check does what is due for a connection that a pass has found due. No lock is
// held. The connection is not in the wheel, so no other pass sees it until it is
// put back.
func (s *Shard) check(c *Conn) {
	if c.Ending() {
		s.reap(c)
		return
	}
	if c.state.Load()&asking != 0 {
		s.dismiss(c, dismissal{reason: ReasonDrain, forced: true})
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
	inTime := false
	for examined := 0; due && v.isDoubtful(c) && examined&(1<<v.reason()) == 0; v, due = s.decide(c) {
		examined |= 1 << v.reason()
		e := s.probe(c, v.reason())
		inTime = inTime || s.isInTime(v, e)
	}
	if due && v.isMiss() {
		s.counts.misses.Add(1)
	}
	switch {
	case !due:
	case inTime && v.reason() == ReasonReadTotal:
		s.replace(c)
	case v.What == deadlines.Ping:
		c.state.move(live, 0, missMask)
		s.ping(c, v)
	case v.What == deadlines.Miss:
		c.state.Add(missUnit) // there are fewer than maxMisses
		s.ping(c, v)
	case v.What == deadlines.Tell:
		s.told(c, v)
	case v.departs(): // Probe has found that a limit hasn't passed
		s.replace(c)
	case c.hooks.OnTimeout != nil && v.reason() != ReasonMaxAge:
		s.ask(c, v)
	default:
		s.timeOut(c, v)
	}
}

// reason returns the reason of the limit that is next.
func (v *decision) reason() Reason { return Reason(v.Terms.Limit) }

// departs reports whether a drain ends the connection, unless it's in use.
func (v *decision) departs() bool { return v.What == deadlines.End && v.reason() == ReasonDrain }

// isDoubtful reports whether the owner could find out that the limit hasn't passed.
func (v *decision) isDoubtful(c *Conn) bool {
	return v.What == deadlines.End && v.reason() < numLimits && !limits[v.reason()].certain && c.hooks.Probe != nil
}

// isInTime reports whether unread input arrived before ReadTotal was over, to within a tick. The
// input may complete the request, so the connection is checked again in the next tick, when its
// owner has had time to read. A trickle gains no more than that tick, because the total itself
// doesn't move.
func (s *Shard) isInTime(v decision, e SocketState) bool {
	return v.reason() == ReasonReadTotal && e.Unread && s.isFresh(e) && s.clock.After(v.At) <= e.In+s.clock.Tick
}

// isFresh reports whether the last input arrived so recently that an owner that reads may not
// have read it yet.
func (s *Shard) isFresh(e SocketState) bool { return e.In > 0 && e.In <= patience*s.clock.Tick }

// probe asks the owner for SocketState, and applies it.
func (s *Shard) probe(c *Conn, about Reason) SocketState {
	e := s.askOwner(c, about)
	s.apply(c, e)
	return e
}

func (s *Shard) askOwner(c *Conn, about Reason) (e SocketState) {
	s.tracker.calls.Guard("Probe", func() { e = c.hooks.Probe(c.owner, about) })
	return e
}

// apply applies what the owner has found out about c.
func (s *Shard) apply(c *Conn, e SocketState) {
	if !c.Live() {
		return
	}
	now := clock.StampOf(s.clock.Settled())
	unread := now.Before() // the stamp of unread input: an activity has a later one, and so revokes the grant (restamp)
	if stamp, ok := s.clock.StampAgo(e.In); ok {
		// The stamp must not be later than the stamp of unread input. Otherwise a read in this
		// tick couldn't revoke a grant. If a limit passes too soon because of that, Probe is
		// called again before anything ends, and reports the same byte when its tick is over.
		if stamp.Sub(unread) > 0 {
			stamp = unread
		}
		inexact := int32(1)
		if beat := &c.phase.Load().policy.Heartbeat; beat.Interval == 0 || beat.Passive {
			inexact = 0 // there are no answers to pings
		}
		notice(stamp, &c.in.stamp, &c.beat, inexact)
	}
	if stamp, ok := s.clock.StampAgo(e.Out); ok {
		notice(stamp, &c.out.stamp, &c.pingSent, 1)
	}
	if stamp, ok := s.clock.StampAgo(e.Doubt); ok {
		c.out.rewait(stamp)
	}
	if e.OutEmpty || e.NotWriting && c.out.waits() {
		c.out.rewait(now)
		c.out.letOff(s.clock.SettledInstant)
	}
	if p := c.phase.Load(); e.Unreported > 0 && p.out.perByte != 0 {
		s.pay(&c.out, c.out.price(e.Unreported, p.out.perByte, p.out.credit, now))
	}
	if e.Unread {
		if c.state.move(live, granted, 0) {
			s.grant(c, unread, s.isFresh(e))
		}
		s.awaitBeat(c)
	}
}

// awaitBeat puts the limit of a passive heartbeat off by a few ticks, because the unread input may
// be a beat. It does so once after each beat, or a peer that sends much and never beats would never
// be ended.
func (s *Shard) awaitBeat(c *Conn) {
	p := c.phase.Load()
	if h := &p.policy.Heartbeat; h.Interval == 0 || !h.Passive || c.pinged.Load().Sub(c.beat.Load()) > 0 {
		return
	}
	for i := range p.limits {
		if t := &p.limits[i]; t.Counts == deadlines.OfBeats {
			c.pinged.Raise(clock.StampOf(s.clock.Settled() + min(beatPatience, t.Ticks) - t.Ticks))
		}
	}
}

// beatPatience is how many ticks an owner has to read a beat.
const beatPatience = 5

// notice records the last byte that the kernel has reported. If the last activity was a
// ping or an answer, that byte is probably the same, and doesn't count as use. The kernel's
// time may be later than ours by the given number of ticks.
func notice(stamp clock.Stamp, use, keepalive *clock.AtomicStamp, inexact int32) {
	if last := keepalive.Load(); last.Sub(use.Load()) > 0 && stamp.Sub(last) <= inexact {
		keepalive.Raise(stamp)
	} else {
		use.Raise(stamp)
	}
}

// patience is how many ticks an owner that reads may leave input unread.
const patience = 2

// grant keeps c alive because input is waiting to be read. If the input is fresh, the owner is
// probably about to read it. So fresh input doesn't extend ReadTotal. Otherwise a trickle could
// extend it forever. With a minimum rate it gains patience ticks, in which the owner can read it;
// its bytes pay from then on.
func (s *Shard) grant(c *Conn, unread clock.Stamp, fresh bool) {
	c.in.stamp.Raise(unread)
	if c.last(&c.in) != unread { // an activity came before the grant and has not seen it
		c.state.drop(granted)
	}
	switch p := c.phase.Load(); {
	case !fresh:
		c.in.letOff(s.clock.SettledInstant)
	case p.in.perByte != 0:
		c.in.repay(unread.Start().Add(ticks(1 + patience - p.in.counted)))
	}
}

// ping calls Ping. The ping counts from the decision v, so that it counts as answered if another
// goroutine has entered a phase since:
//
//	check: finds a ping due
//	Enter: restarts all limits
//	check: records the ping
//
// With a later stamp than Enter's, the new phase would await the answer to it. The tick v.Now may be
// later than stamps are, if the process has stood still.
func (s *Shard) ping(c *Conn, v decision) {
	c.pinged.Raise(v.stamp)
	c.state.move(0, unanswered, 0)
	s.replace(c)
	if !c.state.move(live, pinging, 0) {
		return
	}
	done := uint32(pinging | pingOut | pongIn)
	s.call("Ping", func() {
		if !c.Live() {
			return
		}
		s.counts.pings.Add(1)
		if !c.phase.Load().latest().policy.Heartbeat.CountsAsUse {
			c.state.Or(pingOut | pongIn)
		}
		if err := c.hooks.Ping(c.owner); err == nil {
			done &^= pongIn
		}
	}, func() { c.state.drop(done) })
}

// told notes that the owner is asked to finish, and asks it. The grace counts from now, even if
// that comes late.
func (s *Shard) told(c *Conn, v decision) {
	c.entry.told.Raise(clock.StampOf(v.Now))
	s.replace(c)
	s.tell(c)
}

// tell asks the owner to finish, unless it is being asked already.
func (s *Shard) tell(c *Conn) {
	if c.hooks.OnDrain == nil || !c.state.move(live, telling, 0) {
		return
	}
	s.call("OnDrain", func() {
		if c.Live() {
			c.hooks.OnDrain(c.owner)
		}
	}, func() { c.state.drop(telling) })
}

// ask calls OnTimeout and acts on the answer. The flag asking stays set until the connection has
// ended or is in the wheel again.
func (s *Shard) ask(c *Conn, v decision) {
	if !c.state.move(live, asking, ending) {
		s.replace(c)
		return
	}
	s.lock.Lock()
	s.awaitForce(c)
	s.lock.Unlock()
	err, keep := s.errorOf(&v), false
	s.call("OnTimeout", func() { keep = c.Live() && c.hooks.OnTimeout(c.owner, err) }, func() {
		defer c.state.drop(asking)
		if keep {
			s.counts.extended.Add(1)
			if !c.state.move(live, 0, granted) {
				return // it has ended meanwhile
			}
			c.restart(v.Terms, s.stamp(), s.clock)
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
			e := s.askOwner(c, v.reason())
			if v.reason() == ReasonIdle {
				e.Out = 0 // that may be what OnTimeout has written
			}
			s.apply(c, e)
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
	late := max(v.After(v.At), 0)
	if !s.end(c, v.phase, live|ending, s.errorOf(&v), late) {
		s.replace(c)
		return
	}
	s.counts.lateness.note(late)
	if v.At < v.Now {
		s.counts.deferred.Add(1)
	}
}

// end ends a connection if it has the flags in need, and if phase by, whose limit has passed,
// still has its policy. by may be nil. The transition of the state can happen only once, so the
// connection has only one outcome. end reports whether it made the transition.
func (s *Shard) end(c *Conn, by *Phase, need uint32, err *TimeoutError, late time.Duration) bool {
	p := c.endRecord()
	p.err, p.late = err, late
	become := uint32(over)
	if c.hooks.Reap != nil {
		become = expired
	}
	s.lock.Lock()
	ended := (by == nil || by == by.latest()) && c.state.finish(need, become|ending)
	if ended {
		s.wheel.Cancel(&c.timer)
		if become == over {
			s.remove(c)
		}
	}
	s.lock.Unlock()
	if !ended {
		return false
	}
	s.part(c, &p)
	if c.hooks.OnEnd == nil {
		s.expire(c, err)
		return true
	}
	onEnd, expire := func() { c.hooks.OnEnd(c.owner, err) }, func() { s.expire(c, err) }
	if !s.loop { // OnEnd may wait for what only Expire ends
		expire = sync.OnceFunc(expire)
		onEnd = func() {
			defer time.AfterFunc(s.tracker.opts.ReapDelay, expire).Stop()
			c.hooks.OnEnd(c.owner, err)
		}
	}
	s.call("OnEnd", onEnd, expire)
	return true
}

func (s *Shard) expire(c *Conn, err *TimeoutError) {
	if c.hooks.Reap != nil {
		defer s.lingerFor(c)
	}
	defer s.tracker.calls.Survive("Expire")
	c.hooks.Expire(c.owner, err)
}

// lingerFor puts c, which has timed out, into the wheel to be reaped. If the tracker is closed,
// its driver runs no more passes, and reapExpired may have run before: then lingerFor reaps c.
func (s *Shard) lingerFor(c *Conn) {
	s.lock.Lock()
	ending, closed := c.Ending(), s.closed.Load() && !s.loop
	if ending && !closed {
		s.schedule(c, s.clock.Settled()+s.tracker.linger)
	}
	s.lock.Unlock()
	if ending && closed {
		s.reap(c)
	}
}

// endLinger ends the tracking of c if it has timed out and nobody has closed it. It reports
// whether it did.
func (s *Shard) endLinger(c *Conn) bool {
	s.lock.Lock()
	defer s.lock.Unlock()
	if !c.Ending() {
		return false
	}
	s.forget(c)
	_, ok := c.state.end()
	return ok
}

// isSame reports whether v ends the connection by the same limit as other.
func (v *decision) isSame(other decision) bool {
	return v.What == deadlines.End && v.reason() == other.reason()
}

// isMiss reports whether a ping has stayed unanswered. It may be the last miss,
// which ends the connection.
func (v *decision) isMiss() bool {
	return v.What == deadlines.Miss || v.What == deadlines.End && v.reason() == ReasonHeartbeat && v.Terms.Interval > 0
}

// errorOf returns a decision as an error for the owner.
func (s *Shard) errorOf(v *decision) *TimeoutError {
	err := &TimeoutError{Reason: v.reason(), Phase: v.phase.policy.Name, Limit: limits[v.reason()].allowed(&v.phase.policy), Elapsed: v.After(v.From)}
	err.Setting = s.tracker.Setting(err.Phase, err.Reason)
	if rate := limits[v.reason()].rate; rate != nil {
		err.Rate = rate(&v.phase.policy)
	}
	return err
}

// replace puts a connection back into the wheel after a pass has taken it out, if it's still
// live. Before that it follows a replaced policy.
func (s *Shard) replace(c *Conn) {
	c.state.spare()
	s.lock.Lock()
	defer s.lock.Unlock()
	if c.Live() {
		c.follow(s.clock)
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

// onGoroutine runs a callback on a goroutine of its own, and then the function then.
func (s *Shard) onGoroutine(name string, callback, then func()) {
	s.tracker.calls.Running.Begin()
	go func() {
		defer s.tracker.calls.Running.End()
		defer then()
		s.tracker.calls.Guard(name, callback)
	}()
}

// reap makes the owner close a connection that has timed out and that nobody has
// closed.
func (s *Shard) reap(c *Conn) {
	s.call("Reap", func() {
		if s.endLinger(c) {
			c.hooks.Reap(c.owner)
		}
	}, func() {})
}
