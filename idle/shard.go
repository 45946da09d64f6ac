package idle

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Shard is a set of connections with a wheel of its own. A [Tracker] makes the
// shards that its driver passes over. [Tracker.NewShard] makes one for an event
// loop.
type Shard struct {
	lane
	tracker *base

	execute func(pass func()) error // runs a pass on the loop; nil if the driver runs the passes
	posted  atomic.Bool             // a pass is pending on the loop, or running there
	resume  atomic.Int64            // the clock.elapsed from which the loop may be given the next pass

	closed  atomic.Bool
	passing bool  // on a loop: a pass is running, maybe in a callback
	jobs    []job // connections found due by the current pass
}

// A base is what the shards of a tracker share, and the list of them.
type base struct {
	clock   *clock
	phase   *Phase // the phase of new connections
	opts    Options
	linger  int64 // Options.Linger in ticks
	calls   callbacks
	backlog chan struct{} // tells the driver that a loop has work left

	own []*Shard // shards that the driver passes over

	retiring  atomic.Bool
	whenEmpty func() // closes the tracker if it is still empty

	mu     sync.Mutex
	loops  []*Shard // shards of event loops
	closed bool
	past   Stats // counts of shards that were closed
}

// init prepares b for shards.
func (b *base) init(opts Options) {
	b.opts = opts
	b.linger = int64((opts.Linger+opts.Tick-1)/opts.Tick) + 1
	b.clock = newClock(opts.Tick)
	b.past = Stats{TimedOut: map[Reason]uint64{}}
	b.backlog = make(chan struct{}, 1)
	b.calls.logger = opts.Logger
	b.calls.reapers.running = &b.calls.running
}

// newShard returns a shard that b does not list yet. execute is nil for a shard
// that the driver passes over.
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

// forget removes a loop's shard. It reports whether b had it.
func (b *base) forget(s *Shard) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.loops, s)
	if i < 0 {
		return false
	}
	s.closed.Store(true)
	b.clock.detach(&s.now)
	b.loops = slices.Delete(slices.Clone(b.loops), i, i+1) // a clone, as the driver may be ranging over the old slice
	return true
}

// keepCounts adds the counts of a forgotten shard to b.past.
func (b *base) keepCounts(s *Shard) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.counts.addTo(&b.past)
}

// isEmpty reports whether no connection is live. b.mu must be held.
//
// It does not miss a connection that is being tracked:
//
//	Retire: sets retiring, then checks isEmpty under b.mu
//	Track:  counts the connection, then loads retiring (in isClosed)
//
// Either isEmpty sees the count, or Track sees retiring. In that case Track waits
// for b.mu, and then sees whether the shard has been closed.
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

// errClosed returns the error for a closed shard: ErrClosed if its tracker is
// closed too.
func (b *base) errClosed() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return ErrClosed
	}
	return ErrShardClosed
}

// A job is a connection that a look has found due.
type job struct {
	c     *Conn
	owner any
	hooks *Hooks
	state uint32 // at the time of the look; its generation tells whether c has been tracked anew since
}

// Track starts tracking c under the tracker's policy, as if it had been active
// just now. A read counts as waiting. h and owner must not be nil, nor h.Expire:
// Track panics otherwise, and if c is nil. owner is the argument of the functions
// in h, and is what [Tracker.Close] returns. The shard retains c, owner and h
// until the connection ends. If the shard has a loop, Track must be called on it.
//
// Track fails with [ErrClosed] if the tracker is closed, with [ErrShardClosed] if
// only the shard is, and with [ErrTracked] if c is already tracked. It also fails
// if the policy has an active Heartbeat and h has no Ping.
func (s *Shard) Track(c *Conn, owner any, h *Hooks) error {
	if c == nil {
		panic("idle: Track(nil, ...); pass the address of the connection's Conn")
	}
	if owner == nil {
		panic("idle: Track without an owner; pass what the Hooks are to be called with")
	}
	if h == nil || h.Expire == nil {
		panic("idle: Track without Hooks.Expire; set it, as it ends the reads and writes of a connection")
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
	s.counts.tracked.Add(1) // before closed is loaded, see isEmpty
	if s.isClosed() {       // the tracker's Close may have missed the connection
		if _, ok := c.state.end(); ok {
			s.counts.tracked.Add(^uint64(0))
			return s.tracker.errClosed()
		}
	}
	if c.Live() { // another goroutine may have closed it
		s.place(&c.entry, moment{now: s.clock.recent()})
	}
	return nil
}

// isClosed reports whether s is closed, for a connection that is already counted.
// If the tracker is retiring, it waits for an isEmpty that is under way.
func (s *Shard) isClosed() bool {
	if s.tracker.retiring.Load() {
		s.tracker.mu.Lock()
		defer s.tracker.mu.Unlock()
	}
	return s.closed.Load()
}

// wentAway is called while the tracker is retiring, after a connection has ended
// and been counted. It closes the tracker if that was the last one. If the
// connection ended before Retire set retiring, Retire sees its count.
func (s *Shard) wentAway() {
	if s.counts.live() == 0 {
		s.tracker.whenEmpty()
	}
}
