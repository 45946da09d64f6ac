package idle

import (
	"math"
	"runtime"
	"sync"
	"time"
	"weak"
)

const (
	// If the driver wakes up stallTicks late, the whole process has been stalled, and much input
	// may be waiting. Then no connection is checked for graceTicks, in which servers can read it.
	// Stalls may follow each other closely, as in a throttled container, so a pass has to run
	// between two graces.
	stallTicks = 10
	graceTicks = 5
)

// A driver is the goroutine of a tracker. While the clock runs it wakes up once a tick to publish
// it. It also wakes up when a shard is due. It doesn't keep a tracker without connections from
// being collected, and ends with it.
type driver struct {
	tracker weak.Pointer[Tracker]
	anchor  *anchor
	stop    <-chan struct{} // the tracker is closed
	stopped chan<- struct{}
	signal  <-chan struct{}
	dropped chan struct{} // the tracker was collected

	planned int64 // the tick of the next turn
	grace   int64 // no pass runs before this tick
	passed  bool  // a pass has run since the last grace
	looked  int64 // the tick of the last turn
	ran     int64 // the tick that own shards were passed over for last
}

// startDriver starts the driver of t.
func (t *Tracker) startDriver() {
	d := &driver{
		tracker: weak.Make(t), anchor: t.anchor, stop: t.stop, stopped: t.stopped, signal: t.clock.Signal(), dropped: make(chan struct{}),
		planned: t.clock.Now(), passed: true,
	}
	go d.run(runtime.AddCleanup(t, func(dropped chan struct{}) { close(dropped) }, d.dropped))
}

func (d *driver) run(cleanup runtime.Cleanup) {
	defer close(d.stopped)
	defer cleanup.Stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		stop := false
		select {
		case <-d.stop:
			stop = true
		case <-d.dropped:
			return
		case <-d.signal:
		case <-timer.C:
		}
		t := d.tracker.Value()
		switch {
		case t == nil:
			return
		case stop:
			t.clock.Stop()
			return
		}
		timer.Reset(t.drive(d))
	}
}

// An anchor keeps a tracker from being collected while one of its shards has connections.
type anchor struct {
	mu      sync.Mutex
	shards  int      // that have connections
	tracker *Tracker // nil if none has
}

// hold is called when a shard gets its first connection.
func (a *anchor) hold(t *Tracker) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.shards++
	a.tracker = t
}

// release is called when a shard loses its last connection.
func (a *anchor) release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.shards--; a.shards == 0 {
		a.tracker = nil
	}
}

// forever is how long the driver sleeps if it has nothing to do.
const (
	forever = time.Duration(math.MaxInt64)
	never   = math.MaxInt64 // a tick that does not come
)

// drive does what the driver has to do now, and returns how long it may sleep.
func (t *Tracker) drive(d *driver) (rest time.Duration) {
	now := t.clock.Now()
	if now-d.planned >= stallTicks && d.passed {
		d.grace, d.passed = now+graceTicks, false
	}
	if now > d.looked { // a signal comes at any time
		d.looked = now
		t.clock.Rest(now, t.slowPaths())
	}
	t.clock.Publish()
	if now >= d.grace {
		d.passed = true
		settled := t.clock.Settled()
		t.runDue(settled, settled > d.ran || !t.behind.Load()) // else the budget of this tick is used up
		d.ran = settled
	}
	rest = t.rest(d.grace)
	d.planned = t.clock.In(rest)
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

// rest returns how long the driver may sleep. No pass may run before the tick grace.
func (t *Tracker) rest(grace int64) time.Duration {
	rest := forever
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
