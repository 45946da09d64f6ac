package idle

import "time"

// An event is what happens at a connection's next deadline: a [Reason] to end
// it, or one of these.
type event uint8

const (
	nothing event = iota
	ping          = event(numReasons) + iota
	miss
	drain
	reap
)

// A view is the time at which a connection is looked at. Most looks only find
// that nothing is due, and take every stamp for one that ended after a tick;
// a view with a clock asks it, before anything is done.
type view struct {
	now   int64
	exact *clock
}

// tick returns the tick that a stamp, at most 2³¹ ticks old, stands for.
func (v view) tick(stamp uint32) int64 { return v.now - int64(int32(uint32(v.now)-stamp)) }

// end returns the tick by which an activity with the stamp had happened.
func (v view) end(tick int64) int64 {
	if v.exact == nil {
		return tick + 1
	}
	return v.exact.end(tick)
}

func (v view) waitTick(w uint32) int64 { return v.now - int64(since(w, uint32(v.now))) }

// A deadline is the tick at which something is to happen to a connection, and
// the tick from which the limit that causes it has counted.
type deadline struct {
	at, from int64
	what     event
}

// A sooner finds the soonest of some deadlines.
type sooner struct {
	view
	deadline
}

// limit is passed a timeout, if that is not 0, and more after the end of the
// given tick. The end is found out only if it matters, as that may take long.
func (s *sooner) limit(timeout, more, tick int64, what event) {
	if timeout == 0 || tick+1+timeout+more >= s.at {
		return
	}
	if from := s.end(tick) + more; from+timeout < s.at {
		s.deadline = deadline{at: from + timeout, from: from, what: what}
	}
}

// next returns the connection's next deadline as it is now. Of limits that are
// passed at the same tick the first named wins.
func (c *Conn) next(v view) deadline { return c.nextUnder(c.phase.Load(), v) }

// nextUnder is next, given the phase. It must have been loaded before, so that
// the stamps are those of that phase or of a later one.
func (c *Conn) nextUnder(p *Phase, v view) deadline {
	st := c.state.Load()
	inWait, outWait := c.in.wait.Load(), c.out.wait.Load()
	in, out := v.tick(c.in.stamp.Load()), v.tick(c.out.stamp.Load())

	s := sooner{v, deadline{at: v.now + maxTicks, what: nothing}}
	s.limit(p.idle, 0, max(in, out), event(ReasonIdle))
	if inWait&waiting != 0 {
		begun := v.waitTick(inWait)
		s.limit(p.read, 0, max(in, begun), event(ReasonRead))
	}
	s.limitWaits(&c.in, inWait, p.readGrace, p.readPaid)
	if outWait&waiting != 0 {
		begun := v.waitTick(outWait)
		s.limit(p.write, 0, max(out, begun), event(ReasonWrite))
	}
	s.limitWaits(&c.out, outWait, p.writeGrace, event(ReasonMinWriteRate))
	beat := v.waitTick(c.beat.Load())
	switch {
	case p.beats > 0:
		s.limit(p.beats, 0, beat, event(ReasonHeartbeat))
	case p.whole > 0: // nobody beats
		s.limit(p.whole, 0, beat, event(ReasonPhase))
	}
	// What ends nobody comes last: what ends somebody is not to be late for it.
	if p.age > 0 {
		age, what := c.ageLimit(p, st)
		s.limit(age, 0, v.tick(c.born.Load()), what)
	}
	if p.interval > 0 {
		c.nextPing(&s, p, st, in, beat)
	}
	return s.deadline
}

// limitWaits is limit for the time in which f has waited in all, given its wait. A
// pause is no excuse for having passed the limit in the wait that it has ended:
// all looks may fall into the pauses of a peer that trickles.
func (s *sooner) limitWaits(f *flow, wait uint32, grace int64, what event) {
	if grace == 0 {
		return
	}
	tick := s.waitTick(wait)
	if wait&waiting != 0 || f.owed(tick) > ticks(grace+1) {
		s.limit(grace, f.ahead(s.view, tick), tick, what)
	}
}

// nextPing is next for an active heartbeat that last pinged at the given tick.
func (c *Conn) nextPing(s *sooner, p *Phase, st uint32, in, pingedAt int64) {
	if st&pinged == 0 || c.answered() {
		s.limit(p.interval, 0, max(in, pingedAt), ping)
		return
	}
	s.limit(p.pong, 0, pingedAt, miss)
	if at := s.now + 1 + p.interval; at < s.at { // once it is answered, the next ping may be due before
		s.deadline = deadline{at: at, what: nothing}
	}
}

// ageLimit returns how many ticks after its birth c passes the limit of age that
// is next, and what happens then.
func (c *Conn) ageLimit(p *Phase, st uint32) (int64, event) {
	age := p.age + c.jitter(p.ageJitter)
	switch {
	case st&draining != 0:
		return age + p.ageGrace, event(ReasonMaxAge)
	case p.ageGrace > 0:
		return age, drain
	}
	return age, event(ReasonMaxAge)
}

// answered reports whether something has arrived since the last ping. What
// arrived within the ping's own tick came after it: the ping was sent because
// nothing had come for long.
func (c *Conn) answered() bool {
	return since(c.beat.Load(), c.in.stamp.Load()) >= 0
}

// jitter returns a number below n, or 0, that stays the same for a tracking.
func (c *Conn) jitter(n int64) int64 {
	if n == 0 {
		return 0
	}
	// A multiply and a shift spread the seed well enough (Knuth, TAOCP 6.4).
	spread := uint64(c.seed()) * 0x9E3779B97F4A7C15 >> 32
	return int64(spread * uint64(n) >> 32)
}

// ahead returns by how many ticks the bytes so far satisfy the minimum rate
// beyond the tick in which the present wait began; negative if they do not.
func (f *flow) ahead(v view, begun int64) int64 {
	return v.tick(uint32((f.paid.Load()+1<<32-1)>>32)) - begun
}

// owed returns how much longer was waited by the beginning of a pause, in ticks as
// 32.32, than the bytes so far satisfy the minimum rate.
func (f *flow) owed(paused int64) int64 {
	return int64(instantOf(uint32(paused)) - f.paid.Load())
}

// refresh keeps the stamps of c from growing older than they can tell.
func (c *Conn) refresh(now int64) {
	oldest := uint32(now - 2*maxTicks)
	raise(&c.in.stamp, oldest)
	raise(&c.out.stamp, oldest)
	raise(&c.born, oldest)
	raise(&c.beat, oldest<<1)
	c.in.refresh(oldest)
	c.out.refresh(oldest)
}

func (f *flow) refresh(oldest uint32) {
	w := f.wait.Load()
	old := since(w, oldest)
	if old <= 0 {
		return
	}
	if w&waiting == 0 {
		f.paid.Add(uint64(old) << 32)
	}
	f.wait.CompareAndSwap(w, oldest<<1|w&waiting)
}

// restart begins anew the limit that r names, from the given stamp, or instant if
// it counts waits, and as far as can be no other.
func (c *Conn) restart(r Reason, stamp uint32, at uint64) {
	p := c.phase.Load()
	switch r {
	case ReasonIdle:
		raise(&c.out.stamp, stamp) // besides, only a write that waits looks at it
	case ReasonRead:
		c.in.rebegin(stamp, c.shard.tracker.clock.lag)
	case ReasonWrite:
		c.out.rebegin(stamp, c.shard.tracker.clock.lag)
	case ReasonMinReadRate, ReasonReadTotal:
		c.in.repay(at)
	case ReasonMinWriteRate:
		c.out.repay(at)
	case ReasonHeartbeat, ReasonPhase:
		if (r == ReasonPhase) == (p.whole > 0) {
			raise(&c.beat, stamp<<1)
			c.state.set(0, pinged|missMask)
		}
	case ReasonMaxAge:
		raise(&c.born, stamp)
		c.state.set(0, draining)
	}
}

// limit returns the configured limit that r names.
func (p *Phase) limit(r Reason) time.Duration {
	switch r {
	case ReasonIdle:
		return p.policy.IdleTimeout
	case ReasonRead:
		return p.policy.ReadTimeout
	case ReasonWrite:
		return p.policy.WriteTimeout
	case ReasonMaxAge:
		return p.policy.MaxAge
	case ReasonHeartbeat:
		return p.policy.Heartbeat.limit()
	case ReasonPhase:
		return p.policy.PhaseTimeout
	case ReasonReadTotal:
		return p.policy.ReadTotal
	case ReasonMinReadRate:
		return p.policy.MinReadRate.Grace
	case ReasonMinWriteRate:
		return p.policy.MinWriteRate.Grace
	}
	return 0
}
