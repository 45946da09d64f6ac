package idle

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/wheel"
)

// Shard is a set of connections with a wheel of its own. A [Tracker] makes
// those that it drives itself; [Tracker.NewShard] makes one for an event loop.
type Shard struct {
	// The clock's copy has a cache line of its own: every activity reads it, and
	// what lies beside it is written.
	coarse
	_ [56]byte

	tracker *Tracker
	execute func(pass func()) error // nil if the tracker's driver runs the passes
	posted  atomic.Bool             // a pass is on its way to the loop, or runs there
	resume  atomic.Int64            // when, by clock.elapsed, the loop may be given the next
	closed  atomic.Bool

	lock  sync.Locker // guards wheel; nothing is locked on a loop
	wheel wheel.Wheel
	jobs  []job // scratch of the pass

	due     atomic.Int64 // the tick at which a pass has work, or never
	stirred atomic.Bool  // a stamp has changed since the driver looked
	counts  counts
}

const never = math.MaxInt64

// A pass looks at this many connections, and ends or pings at most so many,
// before it lets go of the lock. On a loop, where nothing is locked, it looks at
// the time after each that it ends.
const (
	looksPerLock = 256
	jobsPerLock  = 16
)

// A job is what a look at a connection has found to do.
type job struct {
	c     *Conn
	owner Owner
	state uint32 // at that time; its generation tells whether c still is what it was
	event event
}

// noLock is the lock of a shard that lives on a loop.
type noLock struct{}

func (noLock) Lock()   {}
func (noLock) Unlock() {}

func newShard(t *Tracker, lock sync.Locker, execute func(func()) error) *Shard {
	s := &Shard{tracker: t, lock: lock, execute: execute, jobs: make([]job, 0, jobsPerLock)}
	s.due.Store(never)
	t.clock.attach(&s.coarse)
	return s
}

// Track begins to track c under the tracker's policy, as something that was
// active just now and of which bytes are awaited. It must be called on the
// shard's loop, if it has one. The shard refers to c and o until the connection
// ends. It fails with [ErrClosed] when the tracker is closed, with
// [ErrShardClosed] when the shard is, with [ErrTracked] when c is tracked already,
// and when the policy pings and o is no [Pinger]. It panics if c or o is nil.
func (s *Shard) Track(c *Conn, o Owner) error {
	if c == nil {
		panic("idle: Track(nil, ...); pass the address of the connection's Conn")
	}
	if o == nil {
		panic("idle: Track without an owner; somebody has to be told")
	}
	if s.closed.Load() {
		return s.errClosed()
	}
	p := s.tracker.phase
	if err := p.fits(o); err != nil {
		return err
	}
	if !c.state.start() {
		return ErrTracked
	}
	c.shard, c.owner = s, o
	stamp := s.stamp()
	c.born.Store(stamp)
	c.beat.Store(stamp << 1)
	c.in.stamp.Store(stamp)
	c.out.stamp.Store(stamp)
	c.out.wait.Store(stamp << 1)
	c.in.wait.Store(stamp<<1 | waiting)
	c.begin(p, stamp)

	s.lock.Lock()
	defer s.lock.Unlock()
	s.counts.tracked.Add(1) // before the look at closed: see Retire
	if s.isClosed() {       // the tracker's Close may have missed it
		if _, ok := c.state.end(); ok {
			s.counts.tracked.Add(^uint64(0))
			return s.errClosed()
		}
	}
	if c.Live() { // not closed meanwhile, by another goroutine
		s.place(c, view{now: s.tracker.clock.recent()})
	}
	return nil
}

// errClosed tells whether the tracker of a shard that is closed is closed too.
func (s *Shard) errClosed() error {
	s.tracker.mu.Lock()
	defer s.tracker.mu.Unlock()
	if s.tracker.closed {
		return ErrClosed
	}
	return ErrShardClosed
}

// stamp returns the present stamp, waking the clock if it sleeps.
func (s *Shard) stamp() uint32 {
	if now := s.now.Load(); now != asleep {
		return now
	}
	return s.tracker.clock.wake()
}

// instant returns the present instant and its stamp: that of the clock if there is
// a grace, so that waits are counted, and else that of its copy.
func (s *Shard) instant(grace int64) (stamp uint32, at uint64) {
	if grace == 0 {
		stamp = s.stamp()
		return stamp, instantOf(stamp)
	}
	at = s.tracker.clock.instant()
	if stamp = stampOf(int64(at >> 32)); stamp != uint32(at>>32) { // the tick that has none of its own
		at = instantOf(stamp)
	}
	return stamp, at
}

// restamp is the slow path of an activity, at most once a tick and connection.
func (s *Shard) restamp(c *Conn, at *atomic.Uint32, now uint32) {
	if now == asleep {
		now = s.tracker.clock.wake()
	}
	if s.execute != nil {
		at.Store(now) // nobody else can have made it later
	} else {
		raise(at, now)
	}
	if c.state.Load()&granted != 0 {
		c.state.set(0, granted)
	}
	if !s.stirred.Load() {
		s.stirred.Store(true)
	}
}

// pay moves on the tick up to which f is paid. On a loop nobody else does so at
// the same time, and it takes no locked instruction.
func (s *Shard) pay(f *flow, ticks uint64) {
	if s.execute != nil {
		f.paid.Store(f.paid.Load() + ticks)
	} else {
		f.paid.Add(ticks)
	}
}

// place schedules c, which is live, at its deadline. The lock is held.
func (s *Shard) place(c *Conn, v view) {
	s.wheel.Advance(uint64(v.now))
	for {
		at := c.next(v).at
		s.schedule(c, at)
		// A wait that began meanwhile may have looked at the old place.
		if c.next(v).at >= at {
			return
		}
	}
}

// schedule puts c at a tick. The lock is held.
func (s *Shard) schedule(c *Conn, at int64) {
	c.placed.Store(uint32(at))
	next := int64(s.wheel.Schedule(&c.timer, uint64(max(at, 0))))
	if next < s.due.Load() { // never during a pass, which announces at its end
		s.due.Store(next)
		s.stamp() // the driver looks at due once a tick, but not while the clock sleeps
	}
}

// pull moves c, which has got a deadline earlier than its place.
func (s *Shard) pull(c *Conn) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if c.Live() && c.timer.Pending() { // else a pass has it in hand, and looks again
		s.counts.relinks.Add(1)
		s.place(c, view{now: s.tracker.clock.recent()})
	}
}

// replace puts c back after a pass had it in hand, if it still is live.
func (s *Shard) replace(j job) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.holds(j) && !j.c.timer.Pending() {
		s.place(j.c, s.tracker.clock.view())
	}
}

// pass looks at what is due, for no longer than the budget if that is not
// zero, and reports whether that has ended it. Only one pass of a shard may run at
// a time.
func (s *Shard) pass(budget time.Duration) (exceeded bool) {
	begun := time.Now()
	now := s.tracker.clock.settled()
	for !exceeded {
		s.lock.Lock()
		more := s.collect(now)
		s.lock.Unlock()
		for _, j := range s.jobs {
			s.settle(j)
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
		s.tracker.guard("OnPass", func() { report(took) })
	}
	return exceeded
}

// collect looks at connections that came up, puts back those that are not due,
// fills jobs with the others, and reports whether there is more to look at.
// The lock is held.
func (s *Shard) collect(now int64) (more bool) {
	s.jobs = s.jobs[:0]
	most := jobsPerLock
	if s.execute != nil {
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
		s.look(connOf(t), now)
	}
	next, ok := s.wheel.Next()
	return ok && int64(next) <= now
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

// look finds out what is due of c, which was just popped. The lock is held.
func (s *Shard) look(c *Conn, now int64) {
	s.counts.looks.Add(1)
	st := c.state.Load()
	switch {
	case st&expired != 0 && int32(c.placed.Load()-uint32(now)) > 0: // too early
		s.schedule(c, view{now: now}.tick(c.placed.Load()))
	case st&expired != 0:
		s.jobs = append(s.jobs, job{c, c.owner, st, reap})
	case st&live != 0:
		c.refresh(now)
		v := view{now: now}
		if d := c.next(v); d.at <= now {
			s.jobs = append(s.jobs, job{c, c.owner, st, d.what})
		} else {
			s.place(c, v)
		}
	}
}
