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

// A sooner finds the soonest of some deadlines.
type sooner struct {
	view
	at   int64
	what event
}

// limit is passed a timeout, if that is not 0, and more after the end of the
// given tick. The end is found out only if it matters, as that may take long.
func (s *sooner) limit(timeout, more, tick int64, what event) {
	if timeout == 0 || tick+1+timeout+more >= s.at {
		return
	}
	if at := s.end(tick) + timeout + more; at < s.at {
		s.at, s.what = at, what
	}
}

// next returns the connection's next deadline as it is now, and what is to
// happen then. Of limits that are passed at the same tick the first named wins.
func (c *Conn) next(v view) (at int64, e event) { return c.nextUnder(c.phase.Load(), v) }

// nextUnder is next, given the phase. It must have been loaded before, so that
// the stamps are those of that phase or of a later one.
func (c *Conn) nextUnder(p *Phase, v view) (at int64, e event) {
	st := c.state.Load()
	inWait, outWait := c.in.wait.Load(), c.out.wait.Load()
	in, out := v.tick(c.in.stamp.Load()), v.tick(c.out.stamp.Load())

	s := sooner{v, v.now + maxTicks, nothing}
	s.limit(p.idle, 0, max(in, out), event(ReasonIdle))
	if inWait&waiting != 0 {
		begun := v.waitTick(inWait)
		s.limit(p.read, 0, max(in, begun), event(ReasonRead))
		s.limit(p.readGrace, c.in.ahead(v, begun), begun, p.readPaid)
	}
	if outWait&waiting != 0 {
		begun := v.waitTick(outWait)
		s.limit(p.write, 0, max(out, begun), event(ReasonWrite))
		s.limit(p.writeGrace, c.out.ahead(v, begun), begun, event(ReasonMinWriteRate))
	}
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
	return s.at, s.what
}

// nextPing is next for an active heartbeat that last pinged at the given tick.
func (c *Conn) nextPing(s *sooner, p *Phase, st uint32, in, pingedAt int64) {
	if st&pinged == 0 || c.answered() {
		s.limit(p.interval, 0, max(in, pingedAt), ping)
		return
	}
	s.limit(p.pong, 0, pingedAt, miss)
	if at := s.now + 1 + p.interval; at < s.at { // once it is answered, the next ping may be due before
		s.at, s.what = at, nothing
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

// restart begins anew the limit that r names, from the given stamp, and as far
// as can be no other.
func (c *Conn) restart(r Reason, stamp uint32) {
	p := c.phase.Load()
	switch r {
	case ReasonIdle:
		raise(&c.out.stamp, stamp) // besides, only a write that waits looks at it
	case ReasonRead:
		c.in.rebegin(stamp)
	case ReasonWrite:
		c.out.rebegin(stamp)
	case ReasonMinReadRate, ReasonReadTotal:
		c.in.repay(stamp)
	case ReasonMinWriteRate:
		c.out.repay(stamp)
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
