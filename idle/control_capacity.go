package idle

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// ErrFull is returned by Track when the capacity allows no other connection; see
// [Capacity].
var ErrFull = errors.New("idle: no room for another connection")

// Capacity limits how many connections a tracker has. Package adapters/admit limits them by key, such
// as the client's address, and by rate.
type Capacity struct {
	// MaxConns is how many connections there may be, or 0 for any number. When there are that many, a new one takes
	// the place of another: the one idle longest of 100 at random, which on average is among the most idle 1 %. The
	// evicted connection ends with [ReasonEvict] in the next pass. So for some milliseconds, or for as long as its
	// event loop is blocked, there are more connections, but at most 1 % and 16 more. If there are that many, or none
	// of 400 at random may be evicted, Track refuses the new one with [ErrFull], and Stats.Refused counts it.
	MaxConns int

	// MinIdle is how long a connection has to be idle before it may be evicted. With zero, a
	// connection that isn't busy may be evicted even if it has just been used. Choose a
	// longer time than honest clients are silent, or an attacker can flush them out by opening
	// connections. An attacker who opens connections all the time can hold all places until the
	// attacker's own connections have been idle for MinIdle. Until then newcomers are refused.
	// With an active Heartbeat and no ExplicitUse, MinIdle must be less than the Interval, because pings count as use.
	MinIdle time.Duration

	// Exempt lists phases whose connections aren't evicted. Nor are busy ones; see [Tracker.Drain]. For phases
	// that are made per client, set NoInterrupt instead.
	Exempt []*Phase
}

func (c *Capacity) validate(t *Tracker) error {
	if c.MaxConns < 0 {
		return fmt.Errorf("idle: Capacity.MaxConns is %d; use 0 for no limit", c.MaxConns)
	}
	for i, p := range c.Exempt {
		if p == nil || p.tracker != t {
			return fmt.Errorf("idle: Capacity.Exempt[%d] is nil or a phase of another tracker; make it with Phase of this one", i)
		}
	}
	return cmp.Or(checkDuration("Capacity.MinIdle", c.MinIdle), c.suits(t, t.phase.Policy()))
}

// suits returns an error if c could evict no connection that begins with the policy p. c may be nil.
func (c *Capacity) suits(t *Tracker, p Policy) error {
	h := p.Heartbeat
	if c != nil && p.pingsAreUse() && c.MinIdle >= h.Interval && !t.phased && !slices.Contains(c.Exempt, t.phase) {
		return fmt.Errorf("idle: Capacity.MinIdle is %v, but connections are pinged every %v, and pings count as use, so none would be evicted; use less than the Interval, or set ExplicitUse", c.MinIdle, h.Interval)
	}
	return nil
}

// SetCapacity sets or changes the capacity of t. The zero Capacity lifts it.
//
// If there are more connections than MaxConns, one visit of all evicts about the most idle ones. Those
// that may not be evicted then stay. Newcomers are refused as long as there are too many, and each
// of them has up to eight others evicted.
//
// SetCapacity fails with [ErrClosed] if the tracker is closed, and with an error that names the
// field if a value in c is invalid. Then nothing changes. Any goroutine may call it.
func (t *Tracker) SetCapacity(c Capacity) error {
	t.mustBeMade()
	c.Exempt = slices.Clone(c.Exempt)
	l := &c
	if c.MaxConns == 0 && c.MinIdle == 0 && len(c.Exempt) == 0 {
		l = nil
	}
	if err := t.setLimit(l); err != nil {
		return err
	}
	t.awaitEnds()
	if t.room.excess(l) > 0 {
		t.visit(t.room.lower(l))
	}
	return nil
}

// setLimit checks and stores l. It holds t.mu, as SetPolicy does when it compares a policy with
// the capacity. Evictions that are under way by another capacity will come to nothing.
func (t *Tracker) setLimit(l *Capacity) error {
	t.room.mu.Lock()
	defer t.room.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if l != nil {
		if err := l.validate(t); err != nil {
			return err
		}
	}
	if t.closed {
		return ErrClosed
	}
	t.room.set(l)
	return nil
}

// Capacity returns the capacity of t. ok is false if it has none.
func (t *Tracker) Capacity() (c Capacity, ok bool) {
	t.mustBeMade()
	l := t.room.limit.Load()
	if l == nil {
		return c, false
	}
	c = *l
	c.Exempt = slices.Clone(c.Exempt)
	return c, true
}

// EvictIdle evicts up to n of the most idle connections, as [Capacity] allows, and returns how many will end shortly,
// without those that are being evicted already. It's for adapters that run out of something other than MaxConns, such
// as descriptors. Without a Capacity it does nothing.
func (t *Tracker) EvictIdle(n int) (evicted int) {
	t.mustBeMade()
	r := &t.room
	r.mu.Lock()
	defer r.mu.Unlock()
	for l := r.limit.Load(); l != nil && evicted < n && r.evict(l); {
		evicted++
	}
	return evicted
}

// A room keeps a tracker within its [Capacity]. For a newcomer without a place, another connection is
// evicted: the most idle one of a random sample. So the cost doesn't depend on the number of
// connections. The newcomer is admitted at once, and the other one ends in the next pass of
// its shard. If that turns out to be in use, there is one connection too many, and the next newcomer has two
// evicted.
type room struct {
	tracker *Tracker
	limit   atomic.Pointer[Capacity] // nil without one; what it points to doesn't change
	refused atomic.Uint64

	mu   sync.Mutex // held by who admits or evicts; who needs a tracker's or a shard's lock too takes this one first
	most int        // an upper bound of the live connections, if MaxConns is set; hasPlace counts them when it's reached
}

const (
	sample     = 100  // how many connections are looked at to find one that is evicted
	moreSample = 400  // and if none of those may be
	fairSample = 1000 // and to find out which are the most idle ones of all

	atATime     = 8 // how many are evicted for a newcomer, at most
	fewEvicting = 4 // a loop that has so many evictions to carry out gets others only if no connection elsewhere may be evicted: it may be blocked
)

// slack is by how much the evictions that are under way may let connections exceed MaxConns.
func (l *Capacity) slack() int { return 16 + l.MaxConns/100 }

// set replaces the limit. r.mu must be held.
func (r *room) set(l *Capacity) {
	r.limit.Store(l)
	r.most = math.MaxInt / 2 // they have to be counted
}

// admit inserts a newcomer. It fails if there is no place for it. If a capacity is set while
// the newcomer waits for the lock of its shard, insert finds that, or who counts the connections finds the newcomer.
func (r *room) admit(insert func(by *Capacity) error) error {
	if l := r.limit.Load(); l == nil || l.MaxConns == 0 {
		if err := insert(l); err != errReplaced {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.limit.Load()
	if l != nil && l.MaxConns > 0 && !r.hasPlace(l) {
		r.refused.Add(1)
		return ErrFull
	}
	r.most++
	return insert(l)
}

// errReplaced says that there is another capacity than the one by which a newcomer was admitted.
var errReplaced = errors.New("idle: another capacity")

// hasPlace reports whether there is a place for a newcomer. If need be, it has others evicted. r.mu must be held.
func (r *room) hasPlace(l *Capacity) bool {
	if r.most < l.MaxConns {
		return true
	}
	live, pending := 0, 0
	for s := range r.tracker.each {
		s.mu.Lock()
		live += len(s.conns.all)
		pending += s.evicting
		s.mu.Unlock()
	}
	r.most = live
	over := live - l.MaxConns // without the newcomer
	admits := over < l.slack()
	if admits {
		over++
	}
	for range atATime {
		if over <= pending || !r.evict(l) {
			break
		}
		pending++
	}
	return admits && over <= pending
}

// excess returns how many connections are too many for l, which may be nil.
func (r *room) excess(l *Capacity) int {
	if l == nil || l.MaxConns == 0 {
		return 0
	}
	return max(r.tracker.live()-l.MaxConns, 0)
}

// evict evicts the most idle connection of a sample, in the next pass of its shard. It returns false
// if none may be evicted. r.mu must be held.
func (r *room) evict(l *Capacity) bool {
	c, last := r.pick(l, sample, fewEvicting)
	if c == nil { // maybe all others are on loops that have so many to carry out
		c, last = r.pick(l, moreSample, math.MaxInt)
	}
	if c == nil || !c.shard.markEvicting(c) {
		return false
	}
	posted := dismissal{conn: c, reason: ReasonEvict, last: last, capacity: l}.post()
	if !posted { // the shard is closed
		c.shard.spareEvicting(c)
	}
	return posted
}

// markEvicting notes that c is going to be evicted. It returns false if c has ended.
func (s *Shard) markEvicting(c *Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	marked := c.state.move(live, evicting, 0)
	if marked {
		s.evicting++
	}
	return marked
}

// spareEvicting notes that c isn't evicted after all.
func (s *Shard) spareEvicting(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.state.move(live|evicting, 0, evicting) {
		s.evicting--
	}
}

// pick returns the most idle connection that may be evicted among about n, and its last use. It passes
// over loops that have so many evictions to carry out. Connections that are probably in use come last, or
// two of them that stay the most idle ones would be picked for every newcomer. r.mu must be held.
func (r *room) pick(l *Capacity, n, most int) (best *Conn, last clock.Stamp) {
	m := r.tracker.clock.Moment()
	bestInUse := false
	r.look(n, most, func(c *Conn) {
		used, inUse := c.lastUse(), c.hasUnread() || c.out.waits()
		better := best == nil || bestInUse && !inUse || bestInUse == inUse && used.Sub(last) < 0
		if better && c.state.Load()&evicting == 0 && l.wants(c, m) {
			best, last, bestInUse = c, used, inUse
		}
	})
	return best, last
}

// look calls f for about n connections at random, or for all if there are no more. It passes over loops
// that have so many evictions to carry out. r.mu must be held.
func (r *room) look(n, most int, f func(c *Conn)) {
	open := max(r.tracker.live(), 1)
	for s := range r.tracker.each {
		s.mu.Lock()
		all := s.conns.all
		some := min((len(all)*n+open-1)/open, len(all))
		if s.loop && s.evicting >= most {
			some = 0
		}
		for i := range some {
			if some < len(all) {
				i = rand.IntN(len(all))
			}
			f(all[i])
		}
		s.mu.Unlock()
	}
}

// wants reports whether c may be evicted.
func (l *Capacity) wants(c *Conn, m clock.Moment) bool {
	return !slices.Contains(l.Exempt, c.phase.Load()) && c.Live() && !c.isBusy() && m.Since(c.lastUse()) >= l.MinIdle
}

// lower returns what a visit does that evicts about the most idle connections, until there are no more
// than l allows. How long those have been idle is found out from a sample.
func (r *room) lower(l *Capacity) func(s *Shard, some []*Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.tracker.clock.Moment()
	var idle []time.Duration
	r.look(fairSample, math.MaxInt, func(c *Conn) { idle = append(idle, m.Since(c.lastUse())) })
	slices.Sort(idle)
	excess, least := r.excess(l), time.Duration(0)
	if n := len(idle) * excess / max(r.tracker.live(), 1) * 9 / 8; n < len(idle) { // rather too many, as the visit ends in time
		least = idle[len(idle)-1-n]
	}
	return func(s *Shard, some []*Conn) {
		m := s.clock.Moment()
		for _, c := range some {
			if m.Since(c.lastUse()) >= least && l.wants(c, m) && r.limit.Load() == l && r.excess(l) > 0 {
				s.dismiss(dismissal{conn: c, reason: ReasonEvict, capacity: l})
			}
		}
	}
}
