package idle

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Shard is a set of connections with a wheel of its own. A [Tracker] makes
// those that it drives itself; [Tracker.NewShard] makes one for an event loop.
type Shard struct {
	lane
	tracker *base

	execute func(pass func()) error // nil if the tracker's driver runs the passes
	posted  atomic.Bool             // a pass is on its way to the loop, or runs there
	resume  atomic.Int64            // when, by clock.elapsed, the loop may be given the next

	closed  atomic.Bool
	passing bool  // on a loop; a callback may be running
	jobs    []job // scratch of the pass
}

// A base is what the shards of a tracker have in common, and who they are.
type base struct {
	clock   *clock
	phase   *Phase // that connections begin with
	opts    Options
	linger  int64 // Options.Linger in ticks
	calls   callbacks
	backlog chan struct{} // tells the driver that a loop has work left

	own []*Shard // the driver's own

	retiring  atomic.Bool
	whenEmpty func() // closes the tracker, if it still is empty

	mu     sync.Mutex
	loops  []*Shard // those on event loops
	closed bool
	past   Stats // of shards that were closed
}

// init makes b ready for shards.
func (b *base) init(opts Options) {
	b.opts = opts
	b.linger = int64((opts.Linger+opts.Tick-1)/opts.Tick) + 1
	b.clock = newClock(opts.Tick)
	b.past = Stats{TimedOut: map[Reason]uint64{}}
	b.backlog = make(chan struct{}, 1)
	b.calls.logger = opts.Logger
	b.calls.reapers.running = &b.calls.running
}

// newShard returns a shard that is not known to the base yet.
// A nil execute is that of a shard that the driver passes over.
func (b *base) newShard(execute func(func()) error) *Shard {
	s := &Shard{tracker: b, execute: execute}
	s.lane.clock, s.lane.loop, s.lane.lock = b.clock, execute != nil, noLock{}
	if execute == nil {
		s.lane.lock = &sync.Mutex{}
	}
	s.due.Store(never)
	s.lane.retiring, s.lane.ended = &b.retiring, s.wentAway
	b.clock.attach(&s.now)
	return s
}

// each calls yield for every shard.
func (b *base) each(yield func(*Shard) bool) {
	for _, s := range b.own {
		if !yield(s) {
			return
		}
	}
	b.mu.Lock()
	loops := b.loops
	b.mu.Unlock()
	for _, s := range loops {
		if !yield(s) {
			return
		}
	}
}

// forget drops a loop's shard, and reports whether the base had it.
func (b *base) forget(s *Shard) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.loops, s)
	if i < 0 {
		return false
	}
	s.closed.Store(true)
	b.clock.detach(&s.now)
	b.loops = slices.Delete(slices.Clone(b.loops), i, i+1) // the driver may be reading the old one
	return true
}

// keepCounts keeps the counts of a shard that was forgotten.
func (b *base) keepCounts(s *Shard) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.counts.addTo(&b.past)
}

// isEmpty reports whether no connection is live. b.mu is held.
//
// A connection that is being tracked meanwhile is not missed. If Track does not see that
// the tracker is retiring, it has counted the connection before that was set, so it is
// seen here. If Track sees it, it waits for b.mu before it looks whether the shard is
// closed: see isClosed.
func (b *base) isEmpty() bool {
	for _, of := range [][]*Shard{b.own, b.loops} {
		for _, s := range of {
			if s.counts.live() > 0 {
				return false
			}
		}
	}
	return true
}

// errClosed tells whether the tracker of a shard that is closed is closed too.
func (b *base) errClosed() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return ErrClosed
	}
	return ErrShardClosed
}

// A job is what a look at a connection has found to be due.
type job struct {
	c     *Conn
	owner any
	hooks *Hooks
	state uint32 // at that time; its generation tells whether c still is what it was
}

// Track begins to track c under the tracker's policy, as something that was
// active just now and of which bytes are awaited. It must be called on the
// shard's loop, if it has one. The shard refers to c, owner and h until the
// connection ends. owner is what the functions of h get, and what
// [Tracker.Close] hands back. It fails with [ErrClosed] when the tracker is closed,
// with [ErrShardClosed] when the shard is, with [ErrTracked] when c is tracked
// already, and when the policy pings and h has no Ping. It panics if c or owner is
// nil, or h has no Expire.
func (s *Shard) Track(c *Conn, owner any, h *Hooks) error {
	if c == nil {
		panic("idle: Track(nil, ...); pass the address of the connection's Conn")
	}
	if owner == nil {
		panic("idle: Track without an owner; it is what Close hands back")
	}
	if h == nil || h.Expire == nil {
		panic("idle: Track without Hooks.Expire; somebody has to be told")
	}
	if s.closed.Load() {
		return s.tracker.errClosed()
	}
	if err := h.Check(s.tracker.phase.policy); err != nil {
		return err
	}
	if !c.state.start() {
		return ErrTracked
	}
	c.lane, c.owner, c.hooks = &s.lane, owner, h
	stamp := s.stamp()
	c.start(stamp)
	c.begin(s.tracker.phase, stamp)
	c.phase.Store(s.tracker.phase)

	s.lock.Lock()
	defer s.lock.Unlock()
	s.counts.tracked.Add(1) // before the look at closed: see isEmpty
	if s.isClosed() {       // the tracker's Close may have missed it
		if _, ok := c.state.end(); ok {
			s.counts.tracked.Add(^uint64(0))
			return s.tracker.errClosed()
		}
	}
	if c.Live() { // not closed meanwhile, by another goroutine
		s.place(&c.entry, moment{now: s.clock.recent()})
	}
	return nil
}

// isClosed reports whether s is closed to a connection that is counted already. It
// waits for somebody who looks whether the tracker is empty.
func (s *Shard) isClosed() bool {
	if s.tracker.retiring.Load() {
		s.tracker.mu.Lock()
		defer s.tracker.mu.Unlock()
	}
	return s.closed.Load()
}

// wentAway is called while the tracker retires, when a connection is live no more and
// counted so. The last one finds all others counted, and has seen the flag that Retire
// sets; or Retire, which sets the flag first, sees its count.
func (s *Shard) wentAway() {
	if s.counts.live() == 0 {
		s.tracker.whenEmpty()
	}
}
