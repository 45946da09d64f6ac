package idle

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

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
	loop    bool         // the shard belongs to an event loop

	mu       sync.Mutex // guards what follows, and the timers of connections; on a loop, others hold it only for a moment
	conns    connSet
	stats    Stats  // not all of them; see Tracker.Stats
	evicting int    // live connections with that flag
	turns    *turns // of the drain under way, or of one that is over; nil without
	wheel    wheel.Wheel

	due       atomic.Int64  // the tick at which a pass has work, or never
	slowPaths atomic.Uint32 // slow paths since the driver last looked; not counted beyond clock.FewSlowPaths, and not exact

	execute  func(pass func()) error // runs a pass on the loop; nil if the driver runs the passes
	posted   atomic.Bool             // a pass is pending on the loop, or running there
	postedAt time.Duration           // when it was posted, as clock.Elapsed; written before execute is called
	behind   atomic.Int64            // the tick since which passes have deferred connections that came up; 0 if they haven't
	resume   atomic.Int64            // the clock.Elapsed from which the loop may be given the next pass

	stall   *stall      // the tracker's, or a loop's own
	closed  atomic.Bool // stored with mu held
	passing bool        // on a loop: a pass is running, maybe in a callback
	jobs    []*Conn     // connections found due by the current pass
	checks  int         // of the current pass

	mail  mailbox
	tasks []dismissal // those that are being carried out

	visits  visits
	visited []*Conn // connections that a step of a visit visits
	stride  int     // how many these are; looksPerLock but in tests
}

// note changes stats. The lock must not be held.
func (s *Shard) note(change func(*Stats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.stats)
}

// newShard returns a shard that t does not list yet. execute is nil for a shard
// that the driver passes over.
func (t *Tracker) newShard(execute func(func()) error) *Shard {
	s := &Shard{tracker: t, clock: t.clock, execute: execute, loop: execute != nil, stride: looksPerLock}
	s.stall = &t.stall
	if s.loop {
		s.stall = new(stall)
	}
	s.due.Store(never)
	t.clock.Attach(&s.now)
	return s
}

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

func (t *Tracker) live() (n int) {
	for s := range t.each {
		s.mu.Lock()
		n += len(s.conns.all)
		s.mu.Unlock()
	}
	return n
}

func (t *Tracker) isClosed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// errClosed returns the error for a closed shard: ErrClosed if its tracker is
// closed too.
func (t *Tracker) errClosed() error {
	if t.isClosed() {
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
	if err := s.tracker.Expect(h); err != nil {
		return err
	}
	if c.state.Load() != 0 {
		return ErrTracked
	}
	s.tracker.learnAddr(owner)
	err := s.tracker.room.admit(func(by *Capacity) error { return s.insert(c, owner, h, by) })
	if err == ErrShardClosed {
		return s.tracker.errClosed()
	}
	return err
}

// insert makes c live, and gives it its place in the wheel. by is the capacity that has admitted c. If insert fails,
// c is as before.
func (s *Shard) insert(c *Conn, owner any, h *Hooks, by *Capacity) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.tracker.phase.limits() // those that Track has checked, or later ones
	if err := h.fit(l); err != nil {
		return err
	}
	switch {
	case s.closed.Load():
		return ErrShardClosed
	case s.tracker.room.limit.Load() != by:
		return errReplaced
	case !c.state.CompareAndSwap(0, live): // another goroutine is in Track, too
		return ErrTracked
	}
	c.shard, c.owner, c.hooks = s, owner, h
	stamp := c.start(s.tracker.phase, l)
	if s.turns != nil {
		s.addTurn()
	}
	s.conns.add(c)
	s.stats.Tracked++
	m := clock.Moment{Now: s.clock.Recent()}
	if s.tracker.draining.Load() != nil {
		s.place(c, m)
		return nil
	}
	s.advance(m.Now)
	s.arm(c, m.Tick(stamp)+int64(l.first))
	return nil
}

// untrack ends the tracking of c with the given outcome, if it has the flags in need. inForce, if not nil, tells under the lock
// whether the reason is still in force, given the limits that are; see awaitEnds. The state changes only once, so a connection
// has only one outcome. untrack reports whether it is this one. The owner's callback comes later.
func (s *Shard) untrack(c *Conn, p endRecord, need, outcome uint32, inForce func(*limits) bool) (ok bool) {
	s.mu.Lock()
	p.limits = c.limits()
	if ok = inForce == nil || inForce(p.limits); ok {
		p.state, ok = c.state.finish(need, outcome)
	}
	if ok {
		s.leave(c, &p)
	}
	s.mu.Unlock()
	if ok {
		s.report(c, &p)
	}
	return ok
}

// leave takes c, which has just ended, out of the wheel and of conns. It counts that, and completes p. The lock must be held.
func (s *Shard) leave(c *Conn, p *endRecord) {
	s.wheel.Cancel(&c.timer)
	m := clock.Moment{Now: s.clock.Recent() - 1} // an activity is at the end of its tick at the latest
	since := func(stamp clock.Stamp) time.Duration {
		return time.Duration(max(m.Now-m.Tick(stamp), 0)) * s.clock.Tick
	}
	p.age, p.idle = since(c.born.Load()), since(c.lastUse())
	if s.turns != nil {
		s.turns.remove(int(c.index))
	}
	s.conns.remove(c)
	p.last = len(s.conns.all) == 0
	if p.state&evicting != 0 {
		s.evicting--
	}
	s.stats.count(p, s.clock)
	if d := s.tracker.draining.Load(); d != nil {
		d.count(p)
	}
	if err := p.err; err != nil {
		p.limits.ended[err.Reason].Add(1)
		if err.Cause != "" {
			s.tracker.causes.of(clip(err.Cause)).Add(1)
		}
	}
}

// report reports the end of a connection, without a lock.
func (s *Shard) report(c *Conn, p *endRecord) {
	t := s.tracker
	t.record(c.owner, p)
	if p.last && (t.retiring.Load() || t.draining.Load() != nil) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.checkEmpty()
	}
}

// A connSet has all live connections of a shard.
type connSet struct{ all []*Conn }

// leastConns is the capacity below which a connSet does not shrink.
const leastConns = 1024

// add adds c, which must not be in a connSet.
func (s *connSet) add(c *Conn) {
	c.index = uint32(len(s.all))
	s.all = append(s.all, c)
}

// has reports whether c is there.
func (s *connSet) has(c *Conn) bool { return int(c.index) < len(s.all) && s.all[c.index] == c }

// remove removes c, which must be there. The last one takes its place.
func (s *connSet) remove(c *Conn) {
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

// Close ends the driver and the tracking of all connections on the tracker's own shards. It returns
// the owners of the live connections. These are still open, and the caller has to close them. A
// [Conn.End] that has begun is carried out first. Connections of event loops no longer time out; end
// their tracking with [Shard.Close].
//
// Close waits for running callbacks, for a second at most. So connections that have timed out are
// usually closed when it returns. If callbacks are still running then, it returns an error that
// says how many. The tracker is closed all the same, and connections whose OnTimeout is running
// are among those returned. A callback that calls Close
// waits for itself; [Tracker.CloseWhenEmpty] doesn't wait. A second Close fails with [ErrClosed].
func (t *Tracker) Close() (live []any, err error) {
	t.mustBeMade()
	if !t.tryClose() {
		return nil, ErrClosed
	}
	wait, stopWaiting := context.WithTimeout(context.Background(), patience)
	defer stopWaiting()
	return t.finish(wait)
}

// Done returns a channel that is closed when the tracker is closed, by [Tracker.Close] or
// after [Tracker.CloseWhenEmpty]. Callbacks may still be running then.
func (t *Tracker) Done() <-chan struct{} {
	t.mustBeMade()
	return t.stop
}

// finish is the part of Close after tryClose.
func (t *Tracker) finish(wait context.Context) (live []any, err error) {
	close(t.stop)
	left := 0
	if !t.stopDriver(wait) {
		left = 1
	}
	for _, s := range t.own {
		s.closeMail() // before the wait, so that OnEnd has its time
	}
	left += t.calls.Running.Await(wait)
	for _, s := range t.own {
		live = append(live, s.takeAll()...)
	}
	left += t.ends.Running.Await(wait)
	if left > 0 {
		return live, fmt.Errorf("idle: Close: callbacks still running after %v: %d; one of them has called Close, or blocks", patience, left)
	}
	return live, nil
}

// tryClose closes all shards to new connections. It returns false if they were
// already closed.
func (t *Tracker) tryClose() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	left, unlock := t.lockAll()
	defer unlock()
	return t.markClosed(left)
}

// lockAll locks all shards, and returns how many connections are live. t.mu must be held.
func (t *Tracker) lockAll() (live int, unlock func()) {
	all := slices.Concat(t.own, t.loops)
	for _, s := range all {
		s.mu.Lock()
		live += len(s.conns.all)
	}
	return live, func() {
		for _, s := range all {
			s.mu.Unlock()
		}
	}
}

// markClosed is tryClose between lockAll, which has found so many live connections, and unlock.
func (t *Tracker) markClosed(left int) bool {
	if t.closed {
		return false
	}
	t.closed = true
	for _, s := range slices.Concat(t.own, t.loops) {
		s.closed.Store(true)
		s.visits.close()
	}
	if d := t.draining.Load(); d != nil {
		d.finish(left)
	}
	return true
}

// takeAll ends the tracking of all connections, and returns their owners. The shard must be closed.
func (s *Shard) takeAll() (owners []any) {
	s.closeMail()
	for {
		s.mu.Lock()
		c := s.conns.last()
		s.mu.Unlock()
		if c == nil {
			return owners
		}
		if s.untrack(c, endRecord{handedBack: true}, live, over, nil) {
			owners = append(owners, c.owner)
		}
	}
}

// Close ends the tracking of all connections of a loop's shard. It returns the owners of the live
// ones, like [Tracker.Close]. The tracker forgets the shard but keeps its counts. Close must be
// called on the loop, or after the loop has ended. It fails with [ErrShardClosed] if the shard is
// already closed, and with another error inside a callback of the shard. It panics if the shard
// belongs to no loop.
func (s *Shard) Close() (live []any, err error) {
	if !s.loop {
		panic("idle: Close of a shard without an event loop; close its tracker")
	}
	if s.passing {
		return nil, errInPass
	}
	if !s.tracker.shut(s) {
		return nil, ErrShardClosed
	}
	s.passing = true
	defer func() { s.passing = false }()
	live = s.takeAll()
	s.tracker.forget(s)
	return live, nil
}

// shut closes a loop's shard to new connections. It returns false if t has forgotten it.
func (t *Tracker) shut(s *Shard) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.Contains(t.loops, s) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed.Store(true)
	s.visits.close()
	t.clock.Detach(&s.now)
	return true
}

// forget removes a loop's shard, but keeps its counts.
func (t *Tracker) forget(s *Shard) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.loops, s); i >= 0 {
		t.loops = slices.Delete(slices.Clone(t.loops), i, i+1) // a clone, because the driver may be ranging over the old slice
		s.note(func(st *Stats) { t.past.Add(*st) })
	}
}

// CloseWhenEmpty makes the tracker close itself when no connection is live: at once if
// there is none, and otherwise when the last one ends, on any shard. CloseWhenEmpty does
// not wait for that.
//
// Until the tracker closes, connections may still be tracked. Afterwards Track and
// [Tracker.Close] fail with [ErrClosed]. Stats keeps the counts.
//
// CloseWhenEmpty may be called from any goroutine, callbacks included. Calling it again,
// or after Close, has no effect. Close may still be called before the last
// connection ends, and ends the tracker at once.
func (t *Tracker) CloseWhenEmpty() {
	t.mustBeMade()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.retiring.Store(true)
	t.checkEmpty()
}

// checkEmpty ends a drain if no connection is live, and closes the tracker if it's retiring. All shards are
// locked when it has looked, so none has a connection when it is closed. The last connection of a shard calls checkEmpty
// when it leaves. t.mu must be held.
//
// Its caller may be in a callback, so finish runs on a goroutine of its own, and waits for callbacks without a limit.
func (t *Tracker) checkEmpty() {
	live, unlock := t.lockAll()
	defer unlock()
	if live > 0 {
		return
	}
	if d := t.draining.Load(); d != nil {
		d.finish(0)
	}
	if t.retiring.Load() && t.markClosed(0) {
		go t.finish(context.Background())
	}
}
