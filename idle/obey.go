package idle

import "unsafe"

// command gives an order to s. It reports whether s is not closed. Any goroutine may call
// it.
func (s *Shard) command(o order) bool {
	if !s.orders.add(o) {
		return false
	}
	s.clock.hurry()
	return true
}

// cancel reports orders that nobody carries out, as the shard is closed.
func cancel(all []order) {
	for _, o := range all {
		o.done(gone)
	}
}

// obey carries out some orders. It reports whether there are more. Like all of a pass
// it must not run twice at a time.
func (s *Shard) obey() (more bool) {
	s.todo = s.orders.take(s.todo[:0], jobsPerLock)
	for i := range s.todo {
		s.carryOut(&s.todo[i])
	}
	clear(s.todo)
	return s.orders.some.Load()
}

func (s *Shard) carryOut(o *order) {
	j, as := s.find(&o.candidate)
	switch {
	case as != inUse:
		o.done(as)
	case j.c == nil && o.report == nil:
		s.later = append(s.later, *o)
	case j.c == nil:
		o.done(inUse)
	case o.what == show:
		o.show(j)
		o.done(told)
	case o.what == tell:
		s.tell(j)
		o.done(told)
	case !o.forced && !s.mayEnd(j, o):
		j.c.state.spare(j.state)
		o.done(inUse)
	case s.terminate(j, o):
		o.done(ended)
	case j.holds():
		o.done(inUse)
	default:
		o.done(gone)
	}
}

// mayEnd reports whether the connection of j may be ended by an order that is not forced.
// It sets the flag ending before it looks. See [Conn.Deliver].
func (s *Shard) mayEnd(j job, o *order) bool {
	j.c.state.move(j.state, live, ending, 0)
	return !o.hasMoved() && !s.isInUse(j, o.reason) && !o.hasMoved() // again, as Examine may have taken its time
}

// find returns the job of c if it is in the wheel. The outcome is gone if c has ended,
// and else inUse. A live connection that is not in the wheel is in the hands of
// OnTimeout, and has the flag asking.
//
// While c is in the wheel and the lock is held, nobody can end it and track it anew, so
// its owner and hooks can be loaded. With the flag they must not be, nor the timer:
//
//	pass:      finds that c is live
//	OnTimeout: returns false, and c is ended
//	owner:     tracks c anew, on another shard with another lock
//	pass:      would find the timer in the wheel of that one
func (s *Shard) find(c *candidate) (j job, as outcome) {
	s.lock.Lock()
	defer s.lock.Unlock()
	switch st := c.conn.state.Load(); {
	case !sameGen(st, c.state) || st&live == 0:
		return j, gone
	case st&asking == 0 && c.conn.timer.Pending():
		j = c.conn.job()
	}
	return j, inUse
}

// postpone puts off orders about connections whose OnTimeout is running, and about
// which nobody wants a report, until the next pass.
func (s *Shard) postpone() {
	if len(s.later) > 0 {
		s.orders.add(s.later...)
		clear(s.later)
		s.later = s.later[:0]
	}
}

// isInUse reports whether the connection is busy, has input that its owner has not read
// yet, or has output that waits to be sent.
func (s *Shard) isInUse(j job, reason Reason) bool {
	if j.c.isBusy() {
		return true
	}
	if j.hooks.Examine == nil {
		return j.c.out.waits()
	}
	e := s.examine(j, reason)
	return e.Unread || j.c.out.waits() && !e.NotWriting && !e.OutEmpty || j.c.isBusy()
}

// terminate ends the connection. It reports whether it has. It has not if somebody else
// was faster, or if a reader has had something to deliver and the order is not forced.
func (s *Shard) terminate(j job, o *order) bool {
	need := uint32(live | ending)
	if o.forced {
		need = live
	}
	if !s.end(j, need, s.errorOf(j, o), 0) {
		return false
	}
	if o.reason == ReasonShed && o.cause != "" {
		s.tracker.countCause(o.cause)
	}
	return true
}

// errorOf returns the error with which an order ends the connection.
func (s *Shard) errorOf(j job, o *order) *TimeoutError {
	p := j.c.phase.Load().latest().policy
	return &TimeoutError{
		Reason: o.reason, Phase: p.Name, Cause: o.cause, Elapsed: s.clock.moment().since(j.c.lastActivity()),
	}
}

// End ends the connection for a cause of the caller's own, whether it is busy or not.
// Neither OnTimeout nor OnDrain is called, but OnEnd is. Reads and writes fail with a
// [TimeoutError] that has [ReasonShed] and the cause, and Stats.Causes counts it.
// It happens in the next pass of the connection's shard, or when OnTimeout has returned,
// if that is running. Any goroutine may call End, of a loop-driven [Shard] too. On a
// connection that is not live it has no effect.
func (c *Conn) End(cause string) {
	st := c.state.Load() // before lane, which is that of this tracking or of a later one
	if st&live == 0 {
		return
	}
	lane := c.lane
	shardOf(lane).command(order{candidate: candidate{conn: c, lane: lane, state: st}, what: terminate, forced: true, reason: ReasonShed, cause: cause})
}

// shardOf returns the shard whose lane is l.
func shardOf(l *lane) *Shard {
	return (*Shard)(unsafe.Add(unsafe.Pointer(l), -int(unsafe.Offsetof(Shard{}.lane))))
}
