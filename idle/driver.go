package idle

import (
	"math"
	"time"
)

const (
	// quietTicks is after how many ticks without any activity the clock sleeps.
	quietTicks = 64

	// If the driver overslept by stallTicks, so did all others, and much may
	// wait to be read. They get mercyTicks to do so before anybody is judged.
	stallTicks = 10
	mercyTicks = 5
)

// drive is the tracker's goroutine. While connections are active it wakes up
// once a tick to copy the clock; besides that, when a shard is due.
func (t *Tracker) drive() {
	defer close(t.stopped)
	timer := time.NewTimer(0)
	defer timer.Stop()
	active := t.clock.now()
	planned, mercy := active, int64(0)
	for {
		select {
		case <-t.stop:
			return
		case <-t.clock.roused:
			active = t.clock.now()
		case <-t.backlog:
		case <-timer.C:
		}
		now := t.clock.now()
		if now-planned >= stallTicks {
			mercy = now + mercyTicks
		}
		if t.stirred() {
			active = now
		}
		if now-active >= quietTicks {
			t.clock.sleep()
		}
		t.clock.publish()
		if now >= mercy {
			t.runDue()
		}
		rest := t.rest(mercy)
		planned = t.clock.in(rest)
		timer.Reset(rest)
	}
}

// stirred reports whether there was an activity since it was last called.
func (t *Tracker) stirred() bool {
	stirred := false
	for s := range t.each {
		if s.stirred.Load() {
			s.stirred.Store(false)
			stirred = true
		}
	}
	return stirred
}

// each calls yield for every shard.
func (t *Tracker) each(yield func(*Shard) bool) {
	for _, s := range t.shards {
		if !yield(s) {
			return
		}
	}
	t.mu.Lock()
	loops := t.loops
	t.mu.Unlock()
	for _, s := range loops {
		if !yield(s) {
			return
		}
	}
}

// runDue runs a pass over every shard that is due, or has its loop run one.
func (t *Tracker) runDue() {
	now := t.clock.settled()
	for s := range t.each {
		switch {
		case s.due.Load() > now:
		case s.execute == nil:
			s.pass(max(t.opts.Budget/time.Duration(len(t.shards)), 1)) // 0 would be no limit
		default:
			s.post()
		}
	}
}

// post has the loop run a pass, if none is on its way, and the loop has been left
// alone for as long as the last one took.
func (s *Shard) post() {
	if s.closed.Load() || s.tracker.clock.elapsed() < time.Duration(s.resume.Load()) || !s.posted.CompareAndSwap(false, true) {
		return
	}
	failed := true // should it panic
	s.tracker.guard("execute", func() { failed = s.execute(s.passOnLoop) != nil })
	if failed {
		s.resume.Store(int64(s.tracker.clock.elapsed() + s.tracker.opts.Tick))
		s.posted.Store(false)
	}
}

// passOnLoop is the pass that the loop of a shard is given. What remains to be done
// has a pass of its own, as soon as the loop has had as much time for its other work,
// or a tick.
// The driver posts it: what a loop is given from inside a task it may run before
// anything else.
func (s *Shard) passOnLoop() {
	k := s.tracker.clock
	if !s.closed.Load() {
		begun := k.elapsed()
		exceeded := s.pass(s.tracker.opts.Budget)
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
	return s.execute != nil && s.due.Load() <= now && !s.posted.Load() && !s.closed.Load()
}

// rest returns how long the driver has nothing to do, if it may judge nobody
// before the given tick.
func (t *Tracker) rest(mercy int64) time.Duration {
	rest := time.Duration(math.MaxInt64)
	if !t.clock.sleeping() {
		rest = t.clock.until(t.clock.now() + 1)
	}
	now, due := t.clock.settled(), int64(never)
	for s := range t.each {
		if s.isBehind(now) {
			rest = min(rest, max(time.Duration(s.resume.Load())-t.clock.elapsed(), t.clock.until(mercy)))
		} else {
			due = min(due, s.due.Load())
		}
	}
	if due < never {
		next := max(due, mercy, now+1) // what was deferred waits for the next tick
		rest = min(rest, t.clock.until(next)+t.clock.slack)
	}
	return max(rest, 0)
}
