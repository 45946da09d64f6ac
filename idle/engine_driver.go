package idle

import (
	"context"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// A driver is the goroutine of a tracker. While the clock runs it wakes up once a tick to publish
// it. It also wakes up when a shard is due. It ends when there is nothing to wait for, and the next
// Hurry starts another one. So a tracker without connections has no goroutine, and if nobody refers to it,
// it is collected like any other value.
type driver struct {
	signal chan struct{}

	mu      sync.Mutex    // guards what follows
	done    chan struct{} // closed when the goroutine has ended; nil if there is none
	stopped bool          // no other one may start

	// The goroutine's.
	looked int64         // the tick of the last turn
	ran    int64         // the tick that own shards were passed over for last
	next   time.Duration // when the next turn was to begin
}

// hurry makes the driver take a turn.
func (t *Tracker) hurry() {
	d := &t.driver
	select {
	case d.signal <- struct{}{}:
	default:
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done == nil && !d.stopped {
		d.done = make(chan struct{})
		d.next = t.clock.Elapsed()
		go t.run(d.done)
	}
}

// run is the driver.
func (t *Tracker) run(done chan struct{}) {
	defer close(done)
	timer := time.NewTimer(forever)
	defer timer.Stop()
	for {
		select {
		case <-t.stop:
			return
		case <-t.driver.signal:
		case <-timer.C:
		}
		rest := t.drive()
		if rest == forever && t.driver.end() {
			return
		}
		timer.Reset(rest)
	}
}

// end reports whether the driver may end, because nobody has hurried it since its turn began.
func (d *driver) end() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.signal) > 0 || d.stopped {
		return false
	}
	d.done = nil
	return true
}

// stopDriver waits until the driver has ended, or until wait is done. It returns false if the driver is still
// in a callback. t.stop must be closed.
func (t *Tracker) stopDriver(wait context.Context) bool {
	d := &t.driver
	d.mu.Lock()
	d.stopped = true
	done := d.done
	d.mu.Unlock()
	t.clock.Stop()
	if done == nil {
		return true
	}
	select {
	case <-done:
		return true
	case <-wait.Done():
		return false
	}
}

// A stall is a time in which the whole process, or a loop, did not run. Much input may be waiting then. If a turn
// of the driver or a pass begins stallTicks late, or takes so long, no connection is checked for graceTicks, in
// which servers can read it: none of the tracker, or none of the loop. Stalls may follow each other closely, as in
// a throttled container, so a pass has to run between two graces.
type stall struct {
	grace  atomic.Int64 // no pass checks connections before this tick
	waited atomic.Bool  // no pass has run since
}

const (
	stallTicks = 10
	graceTicks = 5
)

// onTime is called when something happens that was planned for another time: a turn or a pass begins, or is over that was to
// take no time. It reports whether connections may be checked now.
func (l *stall) onTime(k *clock.Clock, planned time.Duration) bool {
	now := k.Elapsed()
	tick := int64(now / k.Tick)
	if now-planned >= stallTicks*k.Tick && !l.waited.Swap(true) {
		l.grace.Store(tick + graceTicks)
	}
	return tick >= l.grace.Load()
}

// forever is how long the driver sleeps if it has nothing to do.
const (
	forever = time.Duration(math.MaxInt64)
	never   = math.MaxInt64 // a tick that does not come
)

// drive does what the driver has to do now, and returns how long it may sleep.
func (t *Tracker) drive() (rest time.Duration) {
	d, now := &t.driver, t.clock.Now()
	if now > d.looked { // a signal comes at any time
		d.looked = now
		t.clock.Rest(now, t.slowPaths())
	}
	t.clock.Publish()
	t.stall.onTime(t.clock, d.next)
	begun, settled := t.clock.Elapsed(), t.clock.Settled()
	t.runDue(settled, settled > d.ran || !t.deferred.Load()) // else the budget of this tick is used up
	d.ran = settled
	t.stall.onTime(t.clock, begun)
	rest = t.rest(t.stall.grace.Load())
	d.next = t.clock.Elapsed() + min(rest, forever/2)
	return rest
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

// runDue posts a pass to each loop whose shard is due at the given tick. If own is set, it also
// passes over the driver's own shards that are due. If the last passes have deferred something,
// the passes run side by side, on as many goroutines as there are processors.
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
	if t.deferred.Load() && len(due) > 0 {
		lanes = min(runtime.GOMAXPROCS(0), len(due))
		budget = t.opts.Budget / time.Duration((len(due)+lanes-1)/lanes)
	}
	t.deferred.Store(false)
	begun := t.clock.Elapsed()
	pass := func(lane int) {
		for i := lane; i < len(due); i += lanes {
			if due[i].pass(begun, max(budget, 1)) { // 1, as 0 would mean no limit
				t.deferred.Store(true)
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

// rest returns how long the driver may sleep. No pass may run before the tick grace.
func (t *Tracker) rest(grace int64) time.Duration {
	rest := forever
	if !t.clock.Sleeping() {
		rest = t.clock.Until(t.clock.Now() + 1)
	}
	now, due := t.clock.Settled(), int64(never)
	for s := range t.each {
		switch {
		case s.needsPass(now):
			rest = min(rest, max(time.Duration(s.resume.Load())-t.clock.Elapsed(), t.clock.Until(grace)))
		case !s.loop && s.hasOther():
			rest = min(rest, t.clock.Until(now+1)+t.clock.Slack)
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
