package idle

import "time"

// A verdict is what is due for a connection at a moment.
type verdict struct {
	deadline
	moment
	phase *Phase
}

// verdict looks at a connection anew, because there may have been activity or a
// new phase since the last look. due is false if nothing is due any more or the
// connection has ended. A connection that is still live has then been put back
// into the wheel.
//
// The verdict can end the connection only if the flag ending was set before, and no
// reader has cleared it since. See [Conn.Deliver].
func (s *Shard) verdict(j job) (v verdict, due bool) {
	// The clock is read before the phase. The other order would allow this:
	//
	//	judge: loads the phase
	//	Enter: starts all clocks anew, and stores a phase with longer limits
	//	judge: is preempted, reads the clock, and finds a limit of the old phase passed
	v.moment = s.clock.moment()
	j.c.follow(s.clock)
	v.phase = j.c.phase.Load()
	v.deadline = j.c.look(v.phase, v.moment)
	switch {
	case !j.holds():
		return v, false
	case v.at > v.now || v.what == again:
		s.replace(j)
		return v, false
	}
	return v, true
}

// judge does what is due for a connection that a pass has found due. No lock is
// held. The connection is not in the wheel, so no other pass sees it until it is
// put back.
func (s *Shard) judge(j job) {
	if j.state&expired != 0 {
		s.reap(j)
		return
	}
	j.c.state.move(j.state, live, ending, 0)
	v, due := s.verdict(j)
	inTime := false
	for examined := 0; due && v.isDoubtful(j) && examined&(1<<v.terms.reason) == 0; v, due = s.verdict(j) {
		examined |= 1 << v.terms.reason
		e := s.examine(j, v.terms.reason)
		inTime = inTime || s.isInTime(v, e)
	}
	if due && v.isMiss() {
		s.counts.misses.Add(1)
	}
	switch {
	case !due:
	case inTime && v.terms.reason == ReasonReadTotal:
		s.replace(j)
	case v.what == ping:
		j.c.state.move(j.state, live, 0, missMask)
		s.ping(j)
	case v.what == miss:
		j.c.state.addMiss(j.state)
		s.ping(j)
	case v.what == drain:
		s.drain(j, v)
	case j.hooks.OnTimeout != nil:
		s.ask(j, v)
	default:
		s.timeOut(j, v)
	}
}

// isDoubtful reports whether the owner may find out that the limit has not
// passed.
func (v *verdict) isDoubtful(j job) bool {
	return v.what == end && !v.terms.certain && j.hooks.Examine != nil
}

// isInTime reports whether unread input arrived before ReadTotal was over, to within a
// tick. The input may complete what is limited, so the connection is looked at again
// in the next tick, when its owner has had time to read. A trickle gains no more than
// that tick, as the total itself does not move.
func (s *Shard) isInTime(v verdict, e Evidence) bool {
	return v.terms.reason == ReasonReadTotal && e.Unread && s.isFresh(e) && s.clock.after(v.at) <= e.In+s.clock.tick
}

// isFresh reports whether the last input arrived so short a time ago that an owner
// that reads may not have read it yet.
func (s *Shard) isFresh(e Evidence) bool { return e.In > 0 && e.In <= patience*s.clock.tick }

// examine asks the owner for Evidence, and applies it.
func (s *Shard) examine(j job, about Reason) (e Evidence) {
	s.tracker.calls.guard("Examine", func() { e = j.hooks.Examine(j.owner, about) })
	if !j.holds() {
		return e
	}
	c, now := j.c, stampOf(s.clock.settled())
	unread := stampBefore(now) // the stamp of unread input: an activity has a later one, and so revokes the grant (restamp)
	if stamp, ok := s.clock.stampAgo(e.In); ok {
		// The stamp must not be later than that of unread input, or a read in
		// this tick could not revoke a grant. If a limit passes too soon because
		// of that, Examine is called again before anything ends, and reports the
		// same byte when its tick is over.
		if int32(stamp-unread) > 0 {
			stamp = unread
		}
		raise(&c.in.stamp, stamp)
	}
	if stamp, ok := s.clock.stampAgo(e.Out); ok {
		raise(&c.out.stamp, stamp)
	}
	if stamp, ok := s.clock.stampAgo(e.Doubt); ok {
		c.out.rewait(stamp)
	}
	if e.OutEmpty || e.NotWriting && c.out.waits() {
		c.out.rewait(now)
		c.out.letOff(s.clock.settledInstant)
	}
	if p := c.phase.Load(); e.Unreported > 0 && p.out.perByte != 0 {
		s.pay(&c.out, c.out.price(e.Unreported, p.out.perByte, p.out.credit, now))
	}
	if e.Unread && c.state.move(j.state, live, granted, 0) {
		s.grant(c, unread, s.isFresh(e))
		raise(&c.pinged, now) // the unread input may be a beat
	}
	return e
}

// patience is for how many ticks an owner that reads may leave input unread.
const patience = 2

// grant keeps c alive because input is waiting to be read. If the input is fresh,
// the owner is probably about to read it. So fresh input does not extend
// ReadTotal, or a trickle could extend that for ever. With a minimum rate it gains
// patience ticks, in which the owner can read it; its bytes pay from then on.
func (s *Shard) grant(c *Conn, unread uint32, fresh bool) {
	raise(&c.in.stamp, unread)
	if c.in.stamp.Load() != unread { // an activity came before the grant and has not seen it
		c.state.set(0, granted)
	}
	switch p := c.phase.Load(); {
	case !fresh:
		c.in.letOff(s.clock.settledInstant)
	case p.in.perByte != 0:
		c.in.repay(instantOf(unread + 1 + patience - uint32(p.in.counted)))
	}
}

// ping asks the owner to ping.
func (s *Shard) ping(j job) {
	raise(&j.c.pinged, s.stamp())
	j.c.state.mark(j.state, unanswered)
	s.replace(j)
	if !j.c.state.move(j.state, live, pinging, 0) {
		return
	}
	s.call("Ping", func() {
		if j.holds() {
			s.counts.pings.Add(1)
			_ = j.hooks.Ping(j.owner)
		}
	}, func() { j.c.state.move(j.state, 0, 0, pinging) })
}

// drain asks the owner to finish, and starts the grace after MaxAge.
func (s *Shard) drain(j job, v verdict) {
	if !j.c.state.move(j.state, live, draining, 0) {
		return
	}
	// The grace counts from now, even if MaxAge passed some time ago.
	raise(&j.c.born, stampOf(s.clock.settled()-(v.at-v.from)))
	s.replace(j)
	s.tell(j)
}

// tell asks the owner to finish, unless it is being asked already.
func (s *Shard) tell(j job) {
	if j.hooks.OnDrain == nil || !j.c.state.move(j.state, live, telling, 0) {
		return
	}
	s.call("OnDrain", func() {
		if j.holds() {
			j.hooks.OnDrain(j.owner)
		}
	}, func() { j.c.state.move(j.state, 0, 0, telling) })
}

// ask calls OnTimeout and acts on the answer. The flag asking is set until the
// connection has ended or is in the wheel again.
func (s *Shard) ask(j job, v verdict) {
	if !j.c.state.move(j.state, live, asking, ending) {
		s.replace(j)
		return
	}
	err, keep := v.error(), false
	s.call("OnTimeout", func() { keep = j.holds() && j.hooks.OnTimeout(j.owner, err) }, func() {
		defer j.c.state.move(j.state, 0, 0, asking)
		if keep {
			s.counts.kept.Add(1)
			if !j.c.state.move(j.state, live, 0, granted) {
				return
			}
			j.c.restart(v.terms, s.stamp(), s.clock)
			s.replace(j)
			return
		}
		if !j.holds() {
			return
		}
		// If the answer took long, Examine must be called once more. If it did
		// not, Examine would find the same. But the ages in Evidence are inexact:
		// one could come out a little younger, and OnTimeout be called again.
		j.c.state.move(j.state, live, ending, 0)
		last, due := s.verdict(j)
		if due && last.isSame(v) && v.isDoubtful(j) && last.now-v.now > answeredAtOnce {
			s.examine(j, v.terms.reason)
			last, due = s.verdict(j)
		}
		if due && last.isSame(v) {
			s.timeOut(j, last)
		} else if due {
			s.replace(j)
		}
	})
}

// answeredAtOnce is how many ticks an answer may take and still count as
// immediate.
const answeredAtOnce = 2

// timeOut ends a connection that has passed a limit, unless a reader has had something to
// deliver meanwhile.
func (s *Shard) timeOut(j job, v verdict) {
	late := max(v.after(v.at), 0)
	if !s.end(j, live|ending, v.error(), late) {
		s.replace(j)
		return
	}
	s.counts.lateness.note(late)
	if v.at < v.now {
		s.counts.deferred.Add(1)
	}
}

// end ends a connection if it has the flags in need. The transition of its state can
// happen only once, so the connection has only one outcome. end reports whether that is
// this one.
func (s *Shard) end(j job, need uint32, err *TimeoutError, late time.Duration) bool {
	p := j.c.parting()
	p.owner, p.err, p.late = j.owner, err, late
	s.lock.Lock()
	ended := j.c.state.finish(j.state, need)
	if ended {
		s.wheel.Cancel(&j.c.timer)
		if j.hooks.Reap == nil {
			s.conns.remove(j.c)
			j.c.state.move(j.state, expired, 0, expired) // from here on it can be tracked anew
		}
	}
	s.lock.Unlock()
	if !ended {
		return false
	}
	s.counts.ended[err.Reason].Add(1)
	s.counts.part(&p, s.clock)
	p.phase.ended[err.Reason].Add(1)
	if s.watched.Load() {
		s.wentAway(&j.c.entry, p)
	}
	if j.hooks.OnEnd == nil {
		s.expire(j, err)
	} else {
		s.call("OnEnd", func() { j.hooks.OnEnd(j.owner, err) }, func() { s.expire(j, err) })
	}
	return true
}

func (s *Shard) expire(j job, err *TimeoutError) {
	if j.hooks.Reap != nil {
		defer s.lingerFor(j)
	}
	defer s.tracker.calls.survive("Expire")
	j.hooks.Expire(j.owner, err)
}

// lingerFor puts c, which has timed out, into the wheel to be reaped.
func (s *Shard) lingerFor(j job) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if st := j.c.state.Load(); sameGen(st, j.state) && st&expired != 0 {
		s.schedule(&j.c.entry, s.clock.settled()+s.tracker.linger)
	}
}

// endLinger ends the tracking of c if it has timed out and nobody has closed it. It reports
// whether that was so.
func (s *Shard) endLinger(j job) bool {
	s.lock.Lock()
	defer s.lock.Unlock()
	if st := j.c.state.Load(); !sameGen(st, j.state) || st&expired == 0 {
		return false
	}
	s.forget(j.c)
	return j.c.state.move(j.state, expired, 0, expired)
}

// isSame reports whether v ends the connection by the same limit as other.
func (v *verdict) isSame(other verdict) bool {
	return v.what == end && v.terms.reason == other.terms.reason
}

// isMiss reports whether a ping has stayed unanswered. It may be the last miss,
// which ends the connection.
func (v *verdict) isMiss() bool {
	return v.what == miss || v.what == end && v.terms.reason == ReasonHeartbeat && v.terms.interval > 0
}

// error returns the verdict as an error for the owner.
func (v *verdict) error() *TimeoutError {
	return &TimeoutError{
		Reason: v.terms.reason, Setting: v.terms.setting, Phase: v.phase.policy.Name, Limit: v.terms.allowed,
		Elapsed: v.after(v.from),
	}
}

// replace puts a connection back into the wheel after a pass has taken it out, if
// it is still live. It follows a replaced policy before.
func (s *Shard) replace(j job) {
	j.c.state.spare(j.state)
	s.lock.Lock()
	defer s.lock.Unlock()
	if j.holds() && !j.c.timer.Pending() {
		j.c.follow(s.clock)
		s.place(&j.c.entry, s.clock.moment())
	}
}

// call runs a callback that may block, and then the function then. It runs them
// on the loop if there is one, and otherwise on a goroutine of their own.
func (s *Shard) call(name string, callback, then func()) {
	if s.loop {
		s.tracker.calls.guard(name, callback)
		then()
		return
	}
	s.tracker.calls.running.begin()
	go func() {
		defer s.tracker.calls.running.end()
		s.tracker.calls.guard(name, callback)
		then()
	}()
}

// reap makes the owner close a connection that has timed out and that nobody has
// closed.
func (s *Shard) reap(j job) {
	closeIt := func() {
		if s.endLinger(j) {
			s.tracker.calls.guard("Reap", func() { j.hooks.Reap(j.owner) })
		}
	}
	if s.loop {
		closeIt()
	} else {
		s.tracker.calls.reapers.do(closeIt)
	}
}
