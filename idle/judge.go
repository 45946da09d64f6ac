package idle

// job returns the job of c. The lock is held.
func (c *Conn) job() job { return job{c, c.owner, c.hooks, c.state.Load()} }

// A verdict is what is due of a connection at a moment.
type verdict struct {
	deadline
	moment
	phase *Phase
}

// verdict looks at a connection anew: by the time that it is asked for there may
// have been activity, or a new phase. It is false if nothing is due, or the
// connection has ended; if it still is live it has a place again then.
func (s *Shard) verdict(j job) (v verdict, due bool) {
	// The clock comes first. A goroutine that asked OnTimeout, and is held up between
	// the two, would else measure a phase that is entered meanwhile by the limits of
	// the one that was left.
	v.moment, v.phase = s.clock.moment(), j.c.phase.Load()
	v.deadline = j.c.look(v.phase, v.moment)
	switch {
	case !s.holds(j):
		return v, false
	case v.at > v.now || v.what == again:
		s.replace(j)
		return v, false
	}
	return v, true
}

// judge does what is due of a connection that a pass has found due. No lock is held,
// and the connection is in no slot: until it is placed again no pass sees it.
func (s *Shard) judge(j job) {
	if j.state&expired != 0 {
		s.reap(j)
		return
	}
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
		s.end(j, v)
	}
}

// isDoubtful reports whether the owner may find out that the limit is not passed.
func (v *verdict) isDoubtful(j job) bool {
	return v.what == end && !v.terms.certain && j.hooks.Examine != nil
}

// isInTime reports whether unread input arrived before a total was over, to within a
// tick, and may complete what the total limits. The connection is then looked at
// again in the next tick, when its owner will have read. A trickle gains no more than
// that tick, as the total stays as it is.
func (s *Shard) isInTime(v verdict, e Evidence) bool {
	return v.terms.reason == ReasonReadTotal && e.Unread && s.isFresh(e) && s.clock.after(v.at) <= e.In+s.clock.tick
}

// isFresh reports whether the last input is known to have arrived so short a time ago
// that an owner who reads may not have read it.
func (s *Shard) isFresh(e Evidence) bool { return e.In > 0 && e.In <= patience*s.clock.tick }

// examine asks the owner what it can find out, and believes it.
func (s *Shard) examine(j job, about Reason) (e Evidence) {
	s.tracker.calls.guard("Examine", func() { e = j.hooks.Examine(j.owner, about) })
	if !s.holds(j) {
		return e
	}
	c, now := j.c, uint32(s.clock.settled())
	unread := now - 1 // the stamp of input that waits, so that any activity changes it and takes the grant back: see restamp
	if stamp, ok := s.clock.stampAgo(e.In); ok {
		// The stamp is no later than that of unread input, or no read of this tick could
		// take a grant back. If that makes a limit pass too soon, Examine is asked again
		// first, and tells of the same byte when its tick is over.
		raise(&c.in.stamp, unread-uint32(max(0, int32(unread-stamp))))
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
		s.pay(&c.out, c.out.price(e.Unreported, p.out.perByte, now))
	}
	if e.Unread && c.state.move(j.state, live, granted, 0) {
		s.grant(c, unread, s.isFresh(e))
		raise(&c.pinged, now) // it may be a beat
	}
	return e
}

// patience is for how many ticks an owner who reads may leave input unread.
const patience = 2

// grant has c live for input that waits to be read. If that is fresh, the owner may
// be one who reads: then it excuses nothing that has to be complete by some time, as
// a trickle could extend that; and it pays for itself once it is read.
func (s *Shard) grant(c *Conn, unread uint32, fresh bool) {
	raise(&c.in.stamp, unread)
	if c.in.stamp.Load() != unread { // an activity came before the grant, and did not see it
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
		if s.holds(j) {
			s.counts.pings.Add(1)
			_ = j.hooks.Ping(j.owner)
		}
	}, func() { j.c.state.move(j.state, 0, 0, pinging) })
}

// drain tells the owner that the grace after the connection's age has begun.
func (s *Shard) drain(j job, v verdict) {
	if !j.c.state.move(j.state, live, draining, 0) {
		return
	}
	// The grace counts from here, also if it comes late.
	raise(&j.c.born, uint32(s.clock.settled()-(v.at-v.from)))
	s.replace(j)
	if j.hooks.OnDrain != nil {
		s.call("OnDrain", func() {
			if s.holds(j) {
				j.hooks.OnDrain(j.owner)
			}
		}, func() {})
	}
}

// ask asks the owner whether c is to be kept, and acts on the answer.
func (s *Shard) ask(j job, v verdict) {
	if !j.c.state.move(j.state, live, asking, 0) {
		s.replace(j)
		return
	}
	err, keep := v.error(), false
	s.call("OnTimeout", func() { keep = s.holds(j) && j.hooks.OnTimeout(j.owner, err) }, func() {
		if keep {
			s.counts.kept.Add(1)
			if !j.c.state.move(j.state, live, 0, asking|granted) {
				return
			}
			j.c.restart(v.terms, s.stamp(), s.clock)
			s.replace(j)
			return
		}
		if !j.c.state.move(j.state, live, 0, asking) {
			return
		}
		// If the answer took long, the owner has to look closer once more. If it
		// did not, that would only find the same again, but for the error of ages,
		// which may come out a little younger and have it asked twice.
		last, due := s.verdict(j)
		if due && last.isSame(v) && v.isDoubtful(j) && last.now-v.now > answeredAtOnce {
			s.examine(j, v.terms.reason)
			last, due = s.verdict(j)
		}
		if due && last.isSame(v) {
			s.end(j, last)
		} else if due {
			s.replace(j)
		}
	})
}

// answeredAtOnce is in how many ticks an answer is no late one.
const answeredAtOnce = 2

// end times c out. The one transition of its state makes sure that it has one
// outcome.
func (s *Shard) end(j job, v verdict) {
	become := uint32(0)
	if j.hooks.Reap != nil {
		become = expired
	}
	if !j.c.state.move(j.state, live, become, live) {
		return
	}
	s.counts.timedOut[v.terms.reason].Add(1)
	if v.at < v.now {
		s.counts.deferred.Add(1)
	}
	if s.retiring.Load() {
		s.ended()
	}
	err := v.error()
	if j.hooks.OnEnd == nil {
		s.expire(j, err)
		return
	}
	s.call("OnEnd", func() { j.hooks.OnEnd(j.owner, err) }, func() { s.expire(j, err) })
}

func (s *Shard) expire(j job, err *TimeoutError) {
	if j.hooks.Reap != nil {
		defer s.lingerFor(j)
	}
	defer s.tracker.calls.survive("Expire")
	j.hooks.Expire(j.owner, err)
}

// lingerFor places c, which has timed out, to be reaped.
func (s *Shard) lingerFor(j job) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if st := j.c.state.Load(); sameGen(st, j.state) && st&expired != 0 {
		s.schedule(&j.c.entry, s.clock.settled()+s.tracker.linger)
	}
}

// isSame reports whether v ends the connection by the same limit as another one.
func (v *verdict) isSame(other verdict) bool {
	return v.what == end && v.terms.reason == other.terms.reason
}

// isMiss reports whether a ping is unanswered, which may be the last miss of those
// that are allowed.
func (v *verdict) isMiss() bool {
	return v.what == miss || v.what == end && v.terms.reason == ReasonHeartbeat && v.terms.interval > 0
}

// error returns the verdict as its owner is told of it.
func (v *verdict) error() *TimeoutError {
	return &TimeoutError{
		Reason: v.terms.reason, Setting: v.terms.setting, Phase: v.phase.policy.Name, Limit: v.terms.allowed,
		Elapsed: v.after(v.from),
	}
}

// holds reports whether the connection of j still is live, and the same.
func (s *Shard) holds(j job) bool {
	st := j.c.state.Load()
	return sameGen(st, j.state) && st&live != 0
}

// replace puts c back after a pass had it in hand, if it still is live.
func (s *Shard) replace(j job) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.holds(j) && !j.c.timer.Pending() {
		s.place(&j.c.entry, s.clock.moment())
	}
}

// call runs a callback that may block, and then what follows from it: on the
// loop, if there is one, and otherwise on a goroutine of its own.
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

// reap has the owner close a connection that nobody closed.
func (s *Shard) reap(j job) {
	closeIt := func() {
		if j.c.state.move(j.state, expired, 0, expired) {
			s.tracker.calls.guard("Reap", func() { j.hooks.Reap(j.owner) })
		}
	}
	if s.loop {
		closeIt()
	} else {
		s.tracker.calls.reapers.do(closeIt)
	}
}
