package idle

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
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

	execute func(pass func()) error // runs a pass on the loop; nil if the driver runs the passes
	posted  atomic.Bool             // a pass is pending on the loop, or running there
	behind  atomic.Int64            // the tick since which passes have deferred connections that came up; 0 if they haven't
	resume  atomic.Int64            // the clock.elapsed from which the loop may be given the next pass

	closed  atomic.Bool
	passing bool    // on a loop: a pass is running, maybe in a callback
	jobs    []*Conn // connections found due by the current pass

	mail  mailbox
	tasks []task // those that are being done

	walks  walkQueue
	visits []*Conn // connections that a step of a walk visits
	stride int     // how many these are; looksPerLock but in tests

	evicting int // evictions that the room has under way here; guarded by its mutex
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
	phase := s.tracker.phase.latest()
	if err := h.Check(phase.policy); err != nil {
		return err
	}
	begins := uint32(0)
	if !known && phase.policy.Handshake && s.tracker.room.limit.Load().limitsHandshakes() {
		begins = handshaking
	}
	if !c.state.start(begins) {
		return ErrTracked
	}
	c.shard, c.owner, c.hooks = s, owner, h
	stamp := s.stamp()
	c.start(stamp)
	c.begin(phase, stamp)
	c.phase.Store(phase)
	s.tracker.ends.begin(owner)

	counts := s.tracker.keys.Load().capacity()
	if err := s.admit(c, owner, known); err != nil {
		c.state.Store(0) // it may be tried again
		return err
	}
	return s.enroll(c, counts, known)
}

// enroll is the part of Track after admit. counts is the capacity by which keys were counted before
// admit.
func (s *Shard) enroll(c *Conn, counts *Capacity, known bool) error {
	if err := s.insert(c); err != nil {
		s.counts.comers(known).Add(^uint64(0))
		s.leave(c)
		c.state.Store(0)
		return err
	}
	if keys := s.tracker.keys.Load(); keys != nil && keys.capacity() != counts { // the walk that counts may have been here before insert
		keys.adopt(c)
	}
	if c.state.Load()&handshaking != 0 && !c.phase.Load().latest().policy.Handshake {
		c.Established() // the policy was replaced meanwhile, and the walk has been here before insert
	}
	if c.state.drop(rekeyed) {
		c.Rekey()
	}
	return nil
}

// insert makes c live, and gives it its place in the wheel. Until then nobody else can end it.
func (s *Shard) insert(c *Conn) error {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.isClosed() { // the tracker's Close may have missed the connection
		return s.tracker.errClosed()
	}
	if c.follow(s.clock) { // the walk may have been here before the policy was loaded
		if err := c.hooks.Check(c.phase.Load().policy); err != nil {
			return err
		}
	}
	c.state.Or(live) // first: a Rekey that finds neither has no effect
	c.state.drop(entering)
	s.add(c)
	s.place(&c.entry, clock.Moment{Now: s.clock.Recent()})
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

// admit counts a new connection, if there is room for it or it is known. It must come before
// closed is loaded, see isEmpty.
func (s *Shard) admit(c *Conn, owner any, known bool) error {
	t := s.tracker
	keys := t.keys.Load()
	err := t.room.beginHandshake(c)
	if err == nil {
		err = keys.enter(c, owner, known)
	}
	if err == nil {
		err = t.room.admit(known)
	}
	if err != nil {
		t.room.endHandshake(c)
		keys.leave(c)
		t.refused.count(err)
		return err
	}
	s.counts.comers(known).Add(1)
	return nil
}

// established makes room for another connection in the handshake.
func (s *Shard) established(c *Conn) {
	if s.tracker.room.endHandshake(c) {
		s.tracker.keys.Load().endHandshake(c)
	}
}

// leave makes room for another connection.
func (s *Shard) leave(c *Conn) {
	s.tracker.room.leave(c)
	s.tracker.keys.Load().leave(c)
}

// part counts the end of a connection and reports it, without a lock. The owner's callback comes
// later, so that it finds its connection counted. The connection's place is free before that, so
// that there is room for another one when Stats.Live says so. What Live is made of is counted
// last, so that all other counts include the connection by then.
func (s *Shard) part(c *Conn, p *endRecord) {
	s.leave(c)
	if !p.stays {
		s.counts.part(p, s.clock)
	}
	switch {
	case p.stays:
		s.counts.released.Add(1)
	case p.err == nil:
		s.counts.gone.Add(1)
	default:
		p.phase.ended[p.err.Reason].Add(1)
		if p.err.Reason == ReasonShed && p.err.Cause != "" {
			s.tracker.causes.of(clip(p.err.Cause)).Add(1)
		}
		s.counts.ended.Add(1)
	}
	s.tracker.ends.part(c.owner, p)
	s.checkEmpty()
}

// checkEmpty closes a tracker that is retiring if no connection is left. One that ended
// before CloseWhenEmpty set retiring is no longer counted when CloseWhenEmpty looks.
func (s *Shard) checkEmpty() {
	if s.tracker.retiring.Load() && s.counts.live() == 0 {
		s.tracker.closeIfEmpty()
	}
}

// present returns the connections that s has now. s must not belong to a loop.
func (s *Shard) present() []*Conn {
	s.lock.Lock()
	defer s.lock.Unlock()
	return slices.Clone(s.conns.all)
}

// A connSet has all connections of a shard that haven't ended, and those that wait to be reaped.
// The shard's lock guards it. On a loop that lock does nothing, so other goroutines take
// connSet.lock to read all.
//
// A walk visits them from the last to the first, some at a time. all[:unvisited] are those that
// it hasn't visited yet. So a connection that is there when the walk begins, and stays, is
// visited exactly once. One that comes later is not visited.
type connSet struct {
	lock      sync.Locker // held while all changes; a real lock only on a loop, where the shard's lock does nothing
	all       []*Conn
	unvisited int // by the walk that is under way, if any
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

// remove removes c. It reports whether c was there.
func (s *connSet) remove(c *Conn) bool {
	s.lock.Lock()
	defer s.lock.Unlock()
	i := int(c.index)
	if i >= len(s.all) || s.all[i] != c {
		return false
	}
	if i < s.unvisited { // fill its place with one that is not visited either, which leaves a place among the visited
		s.unvisited--
		s.put(i, s.all[s.unvisited])
		i = s.unvisited
	}
	last := len(s.all) - 1
	if i < last {
		s.put(i, s.all[last])
	}
	s.all[last] = nil
	s.all = s.all[:last]
	if n := cap(s.all); n > leastConns && last < n/4 {
		s.all = append(make([]*Conn, 0, n/2), s.all...)
	}
	return true
}

// put puts c in the place i.
func (s *connSet) put(i int, c *Conn) { s.all[i], c.index = c, uint32(i) }

// beginWalk makes all connections unvisited.
func (s *connSet) beginWalk() { s.unvisited = len(s.all) }

// visit returns up to n connections that the walk hasn't visited, and counts them as visited.
func (s *connSet) visit(n int) []*Conn {
	to := s.unvisited
	s.unvisited = max(0, to-n)
	return s.all[s.unvisited:to]
}

// last returns one of the connections, or nil if there are none.
func (s *connSet) last() *Conn {
	if len(s.all) == 0 {
		return nil
	}
	return s.all[len(s.all)-1]
}
