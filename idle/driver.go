package idle

import (
	"math"
	"runtime"
	"sync"
	"time"
)

const (
	// If the driver wakes up stallTicks late, the whole process has been stalled, and
	// much input may be waiting. Connections then have a grace of graceTicks to read it
	// before any of them is looked at. Stalls may follow each other closely, as in a
	// throttled container, so a pass has to run between two graces.
	stallTicks = 10
	graceTicks = 5
)

// drive is the tracker's goroutine. While the clock runs it wakes up once a tick to
// publish it. It also wakes up when a shard is due.
func (t *Tracker) drive() {
	defer close(t.stopped)
	defer t.clock.Stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	planned, grace := t.clock.Now(), int64(0) // no pass runs before the tick grace
	looked, ran := int64(0), int64(0)
	passed := true // a pass has run since the last grace
	for {
		select {
		case <-t.stop:
			return
		case <-t.clock.Signal():
		case <-timer.C:
		}
		now := t.clock.Now()
		if now-planned >= stallTicks && passed {
			grace, passed = now+graceTicks, false
		}
		if now > looked { // a signal comes at any time
			looked = now
			t.clock.Rest(now, t.slowPaths())
		}
		t.clock.Publish()
		if now >= grace {
			passed = true
			settled := t.clock.Settled()
			t.runDue(settled, settled > ran || !t.behind.Load()) // else the budget of this tick is used up
			ran = settled
		}
		rest := t.rest(grace)
		planned = t.clock.In(rest)
		timer.Reset(rest)
	}
}

// slowPaths returns how many slow paths there were since its last call. It does not count
// more than clock.FewSlowPaths for each shard.
func (t *Tracker) slowPaths() (n uint32) {
	for s := range t.each {
		if slowPaths := s.slowPaths.Load(); slowPaths > 0 {
			s.slowPaths.Store(0)
			n += slowPaths
		}
	}
	return n
}

// runDue posts a pass to each loop whose shard is due at the given tick. If own is set, it
// also passes over the driver's own shards that are due. If the last passes have left
// something, it does that side by side, on as many goroutines as there are processors.
func (t *Tracker) runDue(now int64, own bool) {
	due := t.due[:0]
	for s := range t.each {
		switch {
		case s.due.Load() > now && !s.hasOther():
		case !s.loop:
			due = append(due, s)
		default:
			s.post()
		}
	}
	if t.due = due; !own {
		return
	}
	lanes, budget := 1, t.opts.Budget/time.Duration(len(t.own))
	if t.behind.Load() && len(due) > 0 {
		lanes = min(runtime.GOMAXPROCS(0), len(due))
		budget = t.opts.Budget / time.Duration((len(due)+lanes-1)/lanes)
	}
	t.behind.Store(false)
	pass := func(lane int) {
		for i := lane; i < len(due); i += lanes {
			if due[i].pass(max(budget, 1)) { // 1, as 0 would mean no limit
				t.behind.Store(true)
			}
		}
	}
	var others sync.WaitGroup
	for lane := 1; lane < lanes; lane++ {
		others.Go(func() { pass(lane) })
	}
	pass(0)
	others.Wait()
}

// rest returns how long the driver has nothing to do. No pass may run before the tick
// grace.
func (t *Tracker) rest(grace int64) time.Duration {
	rest := time.Duration(math.MaxInt64)
	if !t.clock.Sleeping() {
		rest = t.clock.Until(t.clock.Now() + 1)
	}
	now, due := t.clock.Settled(), int64(never)
	for s := range t.each {
		switch {
		case s.isBehind(now):
			rest = min(rest, max(time.Duration(s.resume.Load())-t.clock.Elapsed(), t.clock.Until(grace)))
		case !s.loop && s.hasOther():
			due = now
		default:
			due = min(due, s.due.Load())
		}
	}
	if due < never {
		next := max(due, grace, now+1) // what was deferred waits for the next tick
		rest = min(rest, t.clock.Until(next)+t.clock.Slack)
	}
	return max(rest, 0)
}
