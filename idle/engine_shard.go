package idle

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
	"github.com/idlewheel/idlewheel/idle/internal/words"
	"github.com/idlewheel/idlewheel/wheel"
)

// Shard is a set of connections with a wheel of its own. A [Tracker] makes the
// shards that its driver passes over. [Tracker.NewShard] makes one for an event
// loop.
type Shard struct {
	// now has a cache line of its own. Every activity reads it, and the fields
	// after it are written often.
	now clock.AtomicStamp // the clock's copy
	_   [60]byte

	tracker *Tracker
	clock   *clock.Clock // the tracker's
	loop    bool         // the shard belongs to an event loop, and lock does nothing

	lock  sync.Locker // guards wheel, the timers in it, and conns
	wheel wheel.Wheel
	conns connSet

	due       atomic.Int64  // the tick at which a pass has work, or never
	slowPaths atomic.Uint32 // slow paths since the driver last looked; not counted beyond clock.FewSlowPaths, and not exact
	counts    counters

	execute  func(pass func()) error // runs a pass on the loop; nil if the driver runs the passes
	posted   atomic.Bool             // a pass is pending on the loop, or running there
	postedAt time.Duration           // when it was posted, as clock.Elapsed; written before execute is called
	behind   atomic.Int64            // the tick since which passes have deferred connections that came up; 0 if they haven't
	resume   atomic.Int64            // the clock.elapsed from which the loop may be given the next pass

	stall   *stall // the tracker's, or a loop's own
	closed  atomic.Bool
	passing bool    // on a loop: a pass is running, maybe in a callback
	jobs    []*Conn // connections found due by the current pass

	mail  mailbox
	tasks []task // those that are being done

	visits  visits
	visited []*Conn // connections that a step of a visit visits
	stride  int     // how many these are; looksPerLock but in tests
	turns   *turns  // of the drain under way, or of one that is over; nil without

	evicting atomic.Int64 // live connections with that flag
}

// noLock is the lock of a shard that belongs to an event loop.
type noLock struct{}

func (noLock) Lock()   {}
func (noLock) Unlock() {}

// newShard returns a shard that t does not list yet. execute is nil for a shard
// that the driver passes over.
func (t *Tracker) newShard(execute func(func()) error) *Shard {
	s := &Shard{tracker: t, clock: t.clock, execute: execute, loop: execute != nil, lock: noLock{}, stride: looksPerLock}
	s.conns.lock = noLock{}
	if execute == nil {
		s.lock = &sync.Mutex{}
	} else {
		s.conns.lock = &sync.Mutex{}
	}
	s.stall = &t.stall
	if s.loop {
		s.stall = new(stall)
	}
	s.due.Store(never)
	t.clock.Attach(&s.now)
	return s
}

// each calls yield for every shard.
func (t *Tracker) each(yield func(*Shard) bool) {
	for _, s := range t.own {
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

// isEmpty reports whether no connection is live. t.mu must be held.
//
// It does not miss a connection that is being tracked:
//
//	CloseWhenEmpty: sets retiring, then checks isEmpty under t.mu
//	Track:  counts the connection, then loads retiring (in isClosed)
//
// Either isEmpty sees the count, or Track sees retiring. In that case Track waits
// for t.mu, and then sees whether the shard has been closed.
func (t *Tracker) isEmpty() bool {
	return !slices.ContainsFunc(slices.Concat(t.own, t.loops), func(s *Shard) bool { return s.counts.live() > 0 })
}

// live returns the number of live connections.
func (t *Tracker) live() (n int) {
	for s := range t.each {
		n += int(s.counts.live())
	}
	return n
}

// isClosed reports whether the tracker is closed.
func (t *Tracker) isClosed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// errClosed returns the error for a closed shard: ErrClosed if its tracker is
// closed too.
func (t *Tracker) errClosed() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return ErrClosed
	}
	return ErrShardClosed
}

// Track starts tracking c under the tracker's policy, as if it had been active just now, with a
// read that waits. Track panics if c, owner, h or h.Expire is nil. owner is the argument of the
// functions in h, and [Tracker.Close] returns it. The shard retains c, owner and h until the
// connection ends. If the shard has a loop, Track must be called on it.
//
// Track fails with [ErrClosed] if the tracker is closed, with [ErrShardClosed] if
// only the shard is, with [ErrFull] if the [Capacity] has no room, and with [ErrTracked] if c was
// tracked before. It also fails if the policy has an active Heartbeat and h has no Ping.
func (s *Shard) Track(c *Conn, owner any, h *Hooks) error { return s.track(c, owner, h, false) }

// track is Track. If known is set, c isn't refused when the tracker is full.
func (s *Shard) track(c *Conn, owner any, h *Hooks, known bool) error {
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
	if h.Ping == nil && !s.tracker.pingless.Load() {
		s.tracker.noPing()
	}
	phase := s.tracker.phase
	l := phase.limits()
	if err := h.Check(l.policy); err != nil {
		return err
	}
	if !c.state.start() {
		return ErrTracked
	}
	c.shard, c.owner, c.hooks = s, owner, h
	stamp := c.start(s, l)
	words.SetPointer(&c.phase, phase)
	s.tracker.ends.begin(owner)

	// The connection must be counted before closed is loaded, see isEmpty.
	err := s.tracker.room.admit(s, known)
	if err == nil {
		if err = s.insert(c, l, stamp); err != nil {
			s.counts.comers(known).Add(^uint64(0))
		}
	}
	if err != nil {
		c.state.Store(0) // it may be tried again
	}
	return err
}

// insert makes c live, and gives it its place in the wheel. Until then nobody else can end it.
func (s *Shard) insert(c *Conn, l *limits, stamp clock.Stamp) error {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.isClosed() { // the tracker's Close may have missed the connection
		return s.tracker.errClosed()
	}
	replaced := c.limits() != l // since Track looked
	if replaced {
		if err := c.hooks.Check(c.limits().policy); err != nil {
			return err
		}
	}
	words.SetUint32(&c.state.Uint32, live) // others see c when the lock is unlocked
	s.add(c)
	m := clock.Moment{Now: s.clock.Recent()}
	if replaced || s.tracker.draining.Load() != nil {
		s.place(c, m)
		return nil
	}
	s.advance(m.Now)
	s.schedule(c, m.Tick(stamp)+int64(l.first))
	return nil
}

// noPing notes that a connection can't be pinged. If a SetPolicy misses the note, it has replaced
// the policy before noPing returns, so Track sees the new policy.
func (t *Tracker) noPing() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pingless.Store(true)
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

// part counts the end of a connection and reports it, without a lock. The owner's callback comes
// later, so that it finds its connection counted. What Stats.Live is made of is counted
// last. So when Live says that there is room for another one, all other counts include this one.
func (s *Shard) part(c *Conn, p *endRecord) {
	if !p.stays {
		s.counts.part(p, s.clock)
	}
	switch {
	case p.stays:
		s.counts.released.Add(1)
	case p.err == nil:
		s.counts.gone.Add(1)
	default:
		p.limits.ended[p.err.Reason].Add(1)
		if p.err.Cause != "" {
			s.tracker.causes.of(clip(p.err.Cause)).Add(1)
		}
		s.counts.ended.Add(1)
	}
	if p.state&evicting != 0 {
		s.evicting.Add(-1) // after what live is made of, see room.admit
	}
	s.tracker.ends.part(c.owner, p)
	s.checkEmpty()
}

// checkEmpty closes a tracker that is retiring if no connection is left, and ends its drain. A
// connection that ended before CloseWhenEmpty set retiring, or before Drain began, is no longer counted
// when they look.
func (s *Shard) checkEmpty() {
	t := s.tracker
	if (t.retiring.Load() || t.draining.Load() != nil) && s.counts.live() == 0 {
		t.checkEmpty()
	}
}

// A connSet has all live connections of a shard. The shard's lock guards it. On a loop that lock does nothing, so other goroutines take
// connSet.lock to read all.
type connSet struct {
	lock sync.Locker // held while all changes; a real lock only on a loop, where the shard's lock does nothing
	all  []*Conn
}

// leastConns is the capacity below which a connSet does not shrink.
const leastConns = 1024

// add adds c, which must not be in a connSet.
func (s *connSet) add(c *Conn) {
	s.lock.Lock()
	defer s.lock.Unlock()
	c.index = uint32(len(s.all))
	s.all = append(s.all, c)
}

// has reports whether c is there.
func (s *connSet) has(c *Conn) bool { return int(c.index) < len(s.all) && s.all[c.index] == c }

// remove removes c, which must be there. The last one takes its place.
func (s *connSet) remove(c *Conn) {
	s.lock.Lock()
	defer s.lock.Unlock()
	last := len(s.all) - 1
	s.all[c.index] = s.all[last]
	s.all[c.index].index = c.index
	s.all[last] = nil
	s.all = s.all[:last]
	if n := cap(s.all); n > leastConns && last < n/4 {
		s.all = append(make([]*Conn, 0, n/2), s.all...)
	}
}

// last returns one of the connections, or nil if there are none.
func (s *connSet) last() *Conn {
	if len(s.all) == 0 {
		return nil
	}
	return s.all[len(s.all)-1]
}
