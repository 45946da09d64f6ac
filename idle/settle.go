package idle

import "time"

// settle does what a pass has found to be due, unless it no longer is. No lock
// is held, and c is in no slot: until it is placed again no pass sees it.
func (s *Shard) settle(j job) {
	if j.event == reap {
		s.reap(j)
		return
	}
	v, p := s.tracker.clock.view(), j.c.phase.Load()
	d := j.c.nextUnder(p, v)
	switch {
	case !s.holds(j): // it has ended since it was looked at
	case d.at > v.now:
		s.replace(j)
	case d.what == ping || d.what == miss:
		s.heartbeat(j, d.what)
	case d.what == drain:
		s.drain(j)
	default:
		s.judge(j, j.c.timeout(p, v, d))
	}
}

// heartbeat asks the owner to ping, or counts a miss and asks it again.
func (s *Shard) heartbeat(j job, e event) {
	c := j.c
	if e == ping {
		c.state.move(j.state, live, 0, missMask)
	} else {
		s.counts.misses.Add(1)
		if c.state.addMiss(j.state) >= c.phase.Load().policy.Heartbeat.misses() {
			s.judge(j, s.verdict(c))
			return
		}
	}
	raise(&c.beat, s.stamp()<<1)
	c.state.mark(j.state, pinged)
	s.replace(j)
	pinger, ok := j.owner.(Pinger)
	if ok && c.state.move(j.state, live, pinging, 0) {
		s.call("Ping", func() {
			if s.holds(j) {
				s.counts.pings.Add(1)
				_ = pinger.Ping()
			}
		}, func() { c.state.move(j.state, 0, 0, pinging) })
	}
}

// drain tells the owner that the grace after the connection's age has begun.
func (s *Shard) drain(j job) {
	if !j.c.state.move(j.state, live, draining, 0) {
		return
	}
	// The grace counts from here, also if it comes late.
	age, _ := j.c.ageLimit(j.c.phase.Load(), 0)
	raise(&j.c.born, uint32(s.tracker.clock.settled()-age))
	s.replace(j)
	if d, ok := j.owner.(Drainer); ok {
		s.call("Drain", func() {
			if s.holds(j) {
				d.Drain()
			}
		}, func() {})
	}
}

// holds reports whether the connection of j still is live, and the same.
func (s *Shard) holds(j job) bool {
	st := j.c.state.Load()
	return sameGen(st, j.state) && st&live != 0
}

// judge decides whether c, which has passed the limit that err names, is to be
// timed out.
func (s *Shard) judge(j job, err TimeoutError) {
	err = s.suspect(j, err)
	if err.Reason == 0 {
		s.replace(j)
		return
	}
	keeper, ok := j.owner.(Keeper)
	if !ok {
		s.expire(j, err.Reason)
		return
	}
	if !j.c.state.move(j.state, live, asking, 0) {
		s.replace(j)
		return
	}
	keep := false
	asked := s.tracker.clock.settled()
	s.call("Keep", func() { keep = s.holds(j) && keeper.Keep(&err) }, func() {
		if keep {
			s.counts.kept.Add(1)
		}
		if j.c.state.move(j.state, live, 0, asking) {
			s.answered(j, err.Reason, keep, asked)
		}
	})
}

// answered acts on the answer of a Keeper that was asked about r at a tick.
func (s *Shard) answered(j job, r Reason, keep bool, asked int64) {
	if keep {
		j.c.restart(r, s.stamp(), s.tracker.clock.instant())
		s.replace(j)
		return
	}
	// If the answer took long, the owner has to look closer once more. If it did
	// not, that would only find the same again, but for the error of ages, which
	// may come out a little younger and have the Keeper asked twice.
	err := s.verdict(j.c)
	if s.tracker.clock.settled()-asked > answeredAtOnce {
		err = s.suspect(j, err)
	}
	if err.Reason == r {
		s.expire(j, r)
	} else {
		s.replace(j)
	}
}

// answeredAtOnce is in how many ticks an answer is no late one.
const answeredAtOnce = 2

// suspect returns the limit that c has passed even after its owner has looked
// closer than c's stamps tell, 0 if there is none. By the stamps it is the one
// that err names.
func (s *Shard) suspect(j job, err TimeoutError) TimeoutError {
	_, waiter := j.owner.(Waiter)
	prober, probes := j.owner.(Prober)
	var examined [numReasons]bool // one limit averted may leave another
	for r := err.Reason; r != 0 && !examined[r] && (waiter || probes); r = err.Reason {
		if !s.holds(j) {
			return TimeoutError{}
		}
		examined[r] = true
		s.askWaiter(j, r)
		if probes && r != ReasonMaxAge && r != ReasonPhase {
			if s.verdict(j.c).Reason == r && s.holds(j) {
				s.tracker.guard("Probe", func() { s.believe(j, r, prober.Probe()) })
			}
		}
		err = s.verdict(j.c)
	}
	return err
}

// askWaiter ends the wait that r is about, if the owner says that there is none.
func (s *Shard) askWaiter(j job, r Reason) {
	w, ok := j.owner.(Waiter)
	f, grace := j.c.waitOf(r)
	if !ok || f == nil {
		return
	}
	// A wait that begins after the question must find that there has been none
	// since the last byte.
	was, stamp := f.suspend()
	going := true // should Waiting panic
	s.tracker.guard("Waiting", func() {
		read, write := w.Waiting()
		going = f == &j.c.in && read || f == &j.c.out && write
	})
	switch {
	case was&waiting == 0:
	case going:
		f.goOn(stamp, was)
	default:
		f.excuse(ticks(int64(min(since(was, stamp), sure+s.tracker.clock.lag(was)))))
		// The wait ended before the owner was asked. What it has run over is
		// forgiven, so that only a further wait can pass the limit.
		f.excuse(f.owed(s.tracker.clock.view().waitTick(stamp<<1)) - ticks(grace))
	}
}

// waitOf returns the flow whose wait r is about, nil if it is about none, and the
// limit of its waits in all.
func (c *Conn) waitOf(r Reason) (f *flow, grace int64) {
	p := c.phase.Load()
	switch r {
	case ReasonRead, ReasonMinReadRate, ReasonReadTotal:
		return &c.in, p.readGrace
	case ReasonWrite, ReasonMinWriteRate:
		return &c.out, p.writeGrace
	}
	return nil, 0
}

// believe takes over what a probe has found.
func (s *Shard) believe(j job, r Reason, p Pulse) {
	c, v := j.c, s.tracker.clock.view()
	if stamp, ok := s.tracker.clock.stampAgo(p.In); ok {
		raise(&c.in.stamp, stamp)
	}
	if stamp, ok := s.tracker.clock.stampAgo(p.Out); ok {
		raise(&c.out.stamp, stamp)
	}
	if stamp, ok := s.tracker.clock.stampAgo(p.Doubt); ok && r == ReasonWrite {
		c.out.rebegin(stamp, s.tracker.clock.lag)
	}
	if p.Drained && (r == ReasonWrite || r == ReasonMinWriteRate) {
		c.restart(r, uint32(v.now), instantOf(uint32(v.now)))
	}
	if ph := c.phase.Load(); p.Unreported > 0 && ph.writePerByte != 0 {
		s.pay(&c.out, c.out.price(p.Unreported, ph.writePerByte, uint32(v.now)))
	}
	if p.Unread && s.excuses(r, p) && c.state.move(j.state, live, granted, 0) {
		// A tick less than now, so that any activity changes the stamp and
		// takes the grant back: see restamp.
		raise(&c.in.stamp, uint32(v.now)-1)
		switch {
		case r == ReasonIdle || r == ReasonRead:
		case r == ReasonMinReadRate && s.isFresh(p): // it pays for itself once it is read
			c.in.repay(instantOf(uint32(v.now) + patience - uint32(c.phase.Load().readGrace)))
		default: // it may be a beat, or all that was owed
			c.restart(r, uint32(v.now), instantOf(uint32(v.now)))
		}
	}
}

// excuses reports whether input that waits to be read excuses the peer for
// passing the limit that r names. For what has to be complete by some time it does
// only if the owner does not read: otherwise a trickle could extend that.
func (s *Shard) excuses(r Reason, p Pulse) bool {
	switch r {
	case ReasonWrite, ReasonMinWriteRate:
		return false
	case ReasonReadTotal:
		return !s.isFresh(p)
	}
	return true
}

// patience is for how many ticks an owner who reads may leave input unread.
const patience = 2

// isFresh reports whether unread input may be that of an owner who reads.
func (s *Shard) isFresh(p Pulse) bool {
	return p.In > 0 && p.In <= patience*s.tracker.clock.tick
}

// verdict reads the connection's deadline anew: by the time it is asked for
// there may have been activity, or a new phase. Its Reason is 0 if no limit is
// passed.
func (s *Shard) verdict(c *Conn) TimeoutError {
	v, p := s.tracker.clock.view(), c.phase.Load()
	return c.timeout(p, v, c.nextUnder(p, v))
}

// timeout returns the limit of p that c has passed, given what nextUnder has
// returned.
func (c *Conn) timeout(p *Phase, v view, d deadline) TimeoutError {
	e := d.what
	if e == miss && misses(c.state.Load()) >= p.policy.Heartbeat.misses() {
		e = event(ReasonHeartbeat)
	}
	if d.at > v.now || e == nothing || e >= event(numReasons) {
		return TimeoutError{}
	}
	if e == event(ReasonHeartbeat) && p.interval > 0 { // from the last ping on is not all of it
		d.from = v.end(v.tick(c.in.stamp.Load()))
	}
	_, setting := Reason(e).names()
	return TimeoutError{
		Reason: Reason(e), Setting: setting, Phase: p.policy.Name, Limit: p.limit(Reason(e)),
		Elapsed: v.exact.after(d.from),
		late:    time.Duration(v.now-d.at) * v.exact.tick,
	}
}

// expire times c out for the reason r, unless it turns out to be alive. The one
// transition of its state makes sure that it has one outcome.
func (s *Shard) expire(j job, r Reason) {
	err := s.verdict(j.c)
	if err.Reason != r {
		s.replace(j)
		return
	}
	_, lingers := j.owner.(Reaper)
	become := uint32(0)
	if lingers {
		become = expired
	}
	if !j.c.state.move(j.state, live, become, live) {
		return
	}
	s.counts.timedOut[r].Add(1)
	s.ended()
	if err.late > 0 {
		s.counts.deferred.Add(1)
	}
	expire := func() {
		s.tracker.guard("Expire", func() { j.owner.Expire(&err) })
		if lingers {
			s.linger(j)
		}
	}
	if p, ok := j.owner.(Parter); ok {
		s.call("Part", func() { p.Part(&err) }, expire)
	} else {
		expire()
	}
}

// linger places c, which has timed out, to be reaped.
func (s *Shard) linger(j job) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if st := j.c.state.Load(); sameGen(st, j.state) && st&expired != 0 {
		s.schedule(j.c, s.tracker.clock.settled()+s.tracker.linger)
	}
}

// reap has the owner close a connection that nobody closed.
func (s *Shard) reap(j job) {
	closeIt := func() {
		if j.c.state.move(j.state, expired, 0, expired) {
			s.tracker.guard("Reap", j.owner.(Reaper).Reap)
		}
	}
	if s.execute != nil {
		closeIt()
	} else {
		s.tracker.reapers.do(closeIt)
	}
}

// call runs a callback that may block, and then what follows from it: on the
// loop, if there is one, and otherwise on a goroutine of its own.
func (s *Shard) call(name string, callback, then func()) {
	if s.execute != nil {
		s.tracker.guard(name, callback)
		then()
		return
	}
	s.tracker.callbacks.begin()
	go func() {
		defer s.tracker.callbacks.end()
		s.tracker.guard(name, callback)
		then()
	}()
}
