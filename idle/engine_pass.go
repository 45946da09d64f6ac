package idle

import (
	"time"
	"unsafe"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
	"github.com/idlewheel/idlewheel/wheel"
)

// pass takes the connections that came up and checks those that are due. planned is when it was to
// begin. If budget isn't zero, it stops when the budget is used up, and reports whether it did. Only
// one pass of a shard may run at a time.
func (s *Shard) pass(planned, budget time.Duration) (exceeded bool) {
	now := s.clock.Settled()
	checks := s.stall.onTime(s.clock, planned) && now >= s.tracker.stall.grace.Load()
	begun := time.Now()
	first := min(s.due.Load(), now) // nothing that is due came up before
	over := func() bool {
		exceeded = exceeded || budget > 0 && time.Since(begun) >= budget
		return exceeded
	}
	for checks && s.checkSome(now) && !over() { // the rest has come up, and waits for the next pass
	}
	// Tasks and visits come last, but some of them run in any case. Otherwise a herd of
	// expiries could delay them forever.
	for s.mail.some.Load() && s.doTasks() && !over() {
	}
	for s.visits.some.Load() && s.step() && !over() {
	}
	s.announce(first)
	took := time.Since(begun)
	if checks {
		s.stall.waited.Store(false)
		s.tracker.stall.waited.Store(false)
	}
	s.note(func(st *Stats) {
		st.Checks += uint64(s.checks)
		st.Passes++
		st.PassTotal += took
		st.Longest = max(st.Longest, took)
	})
	s.checks = 0
	return exceeded
}

// checkSome checks some connections that are due. It reports whether more have come up.
func (s *Shard) checkSome(now int64) (more bool) {
	s.mu.Lock()
	more = s.collect(now)
	s.mu.Unlock()
	for _, c := range s.jobs {
		s.check(c)
	}
	clear(s.jobs)
	return more
}

// collect takes connections that came up. It puts those that are not due back into the wheel, and
// appends the others to jobs. It reports whether more have come up. The lock must be held.
func (s *Shard) collect(now int64) (more bool) {
	s.jobs = s.jobs[:0]
	most := jobsPerLock
	if s.loop {
		most = 1
	}
	s.wheel.Advance(uint64(now))
	looks := 0
	for ; looks < looksPerLock && len(s.jobs) < most; looks++ {
		t := s.wheel.Pop()
		if t == nil {
			break
		}
		c := connOf(t)
		if s.isDue(c, clock.Moment{Now: now}) {
			s.jobs = append(s.jobs, c)
		}
	}
	s.checks += looks
	next, ok := s.wheel.Next()
	return ok && int64(next) <= now
}

// isDue reports whether c, which has just been popped, is due. If not, it puts c back into the
// wheel. The lock must be held.
func (s *Shard) isDue(c *Conn, m clock.Moment) bool {
	st := c.state.Load()
	switch {
	case st&live == 0:
		return false
	case st&asking != 0 && !s.tracker.draining.Load().forces(m.Now): // the drain was replaced or cancelled
		s.awaitForce(c)
		return false
	}
	c.refresh(m.Now)
	at := s.next(c, m).at
	if at <= m.Now {
		return true
	}
	s.placeAt(c, at, m)
	return false
}

// announce sets due to the tick at which the next pass has work. Connections that the pass has
// found came up in the given tick or later.
func (s *Shard) announce(first int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.wheel.Waits():
		s.behind.Store(0)
	case s.behind.Load() == 0:
		s.behind.Store(max(first, 1))
	}
	due := int64(never)
	if next, ok := s.wheel.Next(); ok {
		due = int64(next)
	}
	s.due.Store(due) // in one store: the driver loads it at any time, and would sleep forever after a never
}

// lateBy returns how long passes have been deferring connections that came up.
func (s *Shard) lateBy() time.Duration {
	if behind := s.behind.Load(); behind > 0 && !s.closed.Load() {
		return max(-s.clock.Until(behind), 0)
	}
	return 0
}

// post makes the loop run a pass, unless one is pending or the loop has not yet
// had time for its other work (see resume). It doesn't wait for execute, which may block.
func (s *Shard) post() {
	now := s.clock.Elapsed()
	if s.closed.Load() || now < time.Duration(s.resume.Load()) || !s.posted.CompareAndSwap(false, true) {
		return
	}
	s.postedAt = now
	failed := true // in case it panics
	s.onGoroutine("execute", func() { failed = s.execute(s.passOnLoop) != nil }, func() {
		if failed {
			s.resume.Store(int64(s.clock.Elapsed() + s.tracker.opts.Tick))
			s.posted.Store(false)
			s.clock.Hurry()
		}
	})
}

// passOnLoop is the pass that a loop runs. If work remains, the driver posts the next pass once
// the loop has had as much time for its other work as this pass took, or a tick if that is less.
// passOnLoop doesn't post it itself, because a loop may run a posted task before its other work.
func (s *Shard) passOnLoop() {
	k := s.clock
	if !s.closed.Load() {
		begun := k.Elapsed()
		s.passing = true
		exceeded := func() bool {
			defer func() { s.passing = false }() // also after a runtime.Goexit
			return s.pass(s.postedAt, s.tracker.opts.Budget)
		}()
		s.stall.onTime(k, begun)
		ended := k.Elapsed()
		resume := ended + min(ended-begun, s.tracker.opts.Tick) // a callback that blocks delays others by a tick at most
		if !exceeded {                                          // all that was due is done, so the next pass is for the next tick
			resume = max(resume, ended+k.Until(k.Settled()+1)+k.Slack)
		}
		s.resume.Store(int64(resume))
	}
	s.posted.Store(false)
	if s.needsPass(k.Settled()) {
		s.clock.Hurry()
	}
}

// hasOther reports whether s has tasks or visits.
func (s *Shard) hasOther() bool { return s.mail.some.Load() || s.visits.some.Load() }

// needsPass reports whether a loop has a pass due and none pending.
func (s *Shard) needsPass(now int64) bool {
	return s.loop && (s.due.Load() <= now || s.hasOther()) && !s.posted.Load() && !s.closed.Load()
}

// While it holds the lock, a pass pops no more than looksPerLock connections, and takes no more
// than jobsPerLock that are due. On a loop it takes one, and then checks its budget, because callbacks
// run there.
const (
	looksPerLock = 256
	jobsPerLock  = 16
)

func connOf(t *wheel.Timer) *Conn {
	return (*Conn)(unsafe.Add(unsafe.Pointer(t), -int(unsafe.Offsetof(Conn{}.timer))))
}
