package idle

import (
	"time"
	"unsafe"

	"github.com/idlewheel/idlewheel/wheel"
)

// A pass looks at this many connections, and ends or pings at most so many,
// before it lets go of the lock. On a loop, where nothing is locked, it looks at
// the time after each that it ends.
const (
	looksPerLock = 256
	jobsPerLock  = 16
)

// pass looks at what is due, for no longer than the budget if that is not
// zero, and reports whether that has ended it. Only one pass of a shard may run at
// a time.
func (s *Shard) pass(budget time.Duration) (exceeded bool) {
	begun := time.Now()
	now := s.clock.settled()
	for !exceeded {
		s.lock.Lock()
		more := s.collect(now)
		s.lock.Unlock()
		for _, j := range s.jobs {
			s.judge(j)
		}
		clear(s.jobs)
		if !more {
			break
		}
		exceeded = budget > 0 && time.Since(begun) >= budget // the rest is due still, and comes first in the next pass
	}
	s.announce()
	took := time.Since(begun)
	s.counts.passed(took)
	if report := s.tracker.opts.OnPass; report != nil {
		s.tracker.calls.guard("OnPass", func() { report(took) })
	}
	return exceeded
}

// collect looks at connections that came up, puts back those that are not due,
// fills jobs with the others, and reports whether there is more to look at.
// The lock is held.
func (s *Shard) collect(now int64) (more bool) {
	s.jobs = s.jobs[:0]
	most := jobsPerLock
	if s.loop {
		most = 1
	}
	s.wheel.Advance(uint64(now))
	for range looksPerLock {
		if len(s.jobs) == most {
			break
		}
		t := s.wheel.Pop()
		if t == nil {
			break
		}
		if c := connOf(t); s.isDue(c, moment{now: now}) {
			s.jobs = append(s.jobs, c.job())
		}
	}
	next, ok := s.wheel.Next()
	return ok && int64(next) <= now
}

// connOf returns the connection of which t is the timer.
func connOf(t *wheel.Timer) *Conn {
	return (*Conn)(unsafe.Add(unsafe.Pointer(t), -int(unsafe.Offsetof(Conn{}.entry)+unsafe.Offsetof(entry{}.timer))))
}

// isDue looks at c, which was just popped, and places it if it is not due. The lock
// is held.
func (s *Shard) isDue(c *Conn, m moment) bool {
	s.counts.looks.Add(1)
	st := c.state.Load()
	switch {
	case st&expired != 0 && int32(c.placed.Load()-uint32(m.now)) > 0: // too early to reap
		s.schedule(&c.entry, m.tick(c.placed.Load()))
		return false
	case st&expired != 0:
		return true
	case st&live == 0:
		return false
	}
	c.refresh(m.now)
	at := c.next(m).at
	if at <= m.now {
		return true
	}
	s.placeAt(&c.entry, at, m)
	return false
}

// announce publishes when the next pass is due.
func (s *Shard) announce() {
	s.lock.Lock()
	defer s.lock.Unlock()
	due := int64(never)
	if next, ok := s.wheel.Next(); ok {
		due = int64(next)
	}
	s.due.Store(due) // at once: the driver may look meanwhile, and lie down for good
}

// post has the loop run a pass, if none is on its way, and the loop has been left
// alone for as long as the last one took.
func (s *Shard) post() {
	if s.closed.Load() || s.clock.elapsed() < time.Duration(s.resume.Load()) || !s.posted.CompareAndSwap(false, true) {
		return
	}
	failed := true // should it panic
	s.tracker.calls.guard("execute", func() { failed = s.execute(s.passOnLoop) != nil })
	if failed {
		s.resume.Store(int64(s.clock.elapsed() + s.tracker.opts.Tick))
		s.posted.Store(false)
	}
}

// passOnLoop is the pass that the loop of a shard is given. What remains to be done
// has a pass of its own, as soon as the loop has had as much time for its other work,
// or a tick.
// The driver posts it: what a loop is given from inside a task it may run before
// anything else.
func (s *Shard) passOnLoop() {
	k := s.clock
	if !s.closed.Load() {
		begun := k.elapsed()
		s.passing = true
		exceeded := s.pass(s.tracker.opts.Budget)
		s.passing = false
		ended := k.elapsed()
		resume := ended + min(ended-begun, s.tracker.opts.Tick) // a callback that blocks costs the others no more than that
		if !exceeded {                                          // what is due all the same is so for the next tick
			resume = max(resume, ended+k.until(k.settled()+1)+k.slack)
		}
		s.resume.Store(int64(resume))
	}
	s.posted.Store(false)
	if s.isBehind(k.settled()) {
		select {
		case s.tracker.backlog <- struct{}{}:
		default:
		}
	}
}

// isBehind reports whether a pass is due on a loop that has none on its way.
func (s *Shard) isBehind(now int64) bool {
	return s.loop && s.due.Load() <= now && !s.posted.Load() && !s.closed.Load()
}
