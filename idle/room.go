package idle

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// SetCapacity sets or changes the capacity of t. The zero Capacity lifts all its limits.
// If there are more connections than Most, the most idle ones are evicted, and those that
// may not be evicted yet follow when they may. Those that exceed PerKey stay.
//
// SetCapacity fails with [ErrClosed] if the tracker is closed. It also fails if a value in
// c is invalid, and the error names it. Then nothing changes. Any goroutine may call it.
func (t *Tracker) SetCapacity(c Capacity) error {
	t.mustBeMade()
	if err := c.validate(t.clock); err != nil {
		return err
	}
	if t.isClosed() {
		return ErrClosed
	}
	if c.Most == 0 && c.PerKey == 0 && c.Grace == 0 && len(c.Exempt) == 0 {
		t.gate.Store(nil)
		return nil
	}
	c.Exempt = slices.Clone(c.Exempt)
	r := &room{Capacity: c, tracker: &t.base, keys: newKeys(&c, &t.calls), refused: &t.refused}
	if c.PerKey > 0 {
		t.watched.Store(true)
	}
	g := gate(r)
	t.gate.Store(&g)
	if c.PerKey > 0 {
		t.walk(func(s *Shard, c *Conn) {
			r.keys.adopt(&c.entry, c.owner)
			if !c.Live() { // it has ended meanwhile, maybe before it was counted
				r.keys.leave(&c.entry)
			}
		})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle()
	return nil
}

// Capacity returns the capacity of t. ok is false if it has none.
func (t *Tracker) Capacity() (c Capacity, ok bool) {
	t.mustBeMade()
	if g := t.gate.Load(); g != nil {
		c = (*g).(*room).Capacity
		c.Exempt = slices.Clone(c.Exempt)
		return c, true
	}
	return c, false
}

// MakeRoom evicts n of the most idle connections, as [Capacity] allows, and returns how
// many will be ended shortly. It is for adapters that run out of something else than the
// number of connections, such as descriptors. Without a Capacity it does nothing.
func (t *Tracker) MakeRoom(n int) (evicted int) {
	t.mustBeMade()
	g := t.gate.Load()
	if g == nil {
		return 0
	}
	r := (*g).(*room)
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.make(n, r.credit())
}

// A room is what keeps a tracker within its [Capacity]. It evicts the most idle
// connections to make room for new ones.
//
// To find them, a walk collects the most idle share of all connections, and evictions
// take from these until half are left. Then the next walk is due. So an eviction costs
// its part of a walk, the same with ten thousand connections as with a million. Nobody
// was more idle than those that a walk has collected, and as long as one of them has no
// activity, only others of them can be. So each of them is among the most idle share for
// as long as it may be taken.
type room struct {
	Capacity
	tracker *base
	keys    *keys
	refused *atomic.Uint64

	mu         sync.Mutex  // guards what follows, and is locked before that of a shard
	candidates []candidate // the most idle one is the last one
	enough     int         // when fewer are left, the next walk is due
	found      mostIdle    // by the walk that is under way
	walking    bool
	ended      int       // of the candidates that the last walk has found, and of some before
	barren     time.Time // until then no walk begins, as it would find none that can be evicted
	evicting   int       // connections that shards have orders to evict
	owed       int       // connections that are to be evicted as soon as a walk has found them
	settling   bool      // settle will be called when a walk may begin again
}

const (
	shareCollected = 200 // of all connections, 1 in so many is collected
	minCollected   = 16  // or so many
	mostOwed       = 100 // of the capacity, 1 in so many may be owed, or 1

	// So a walk that finds none takes at most a fifth of a core, however often it begins.
	leastBarren = 100 * time.Millisecond
	barrenEach  = time.Microsecond // for each connection
)

// admit counts a new connection of s if there is room, or room can be made.
func (r *room) admit(s *Shard, e *entry, owner any) error {
	if err := r.keys.enter(e, owner); err != nil {
		r.refused.Add(1)
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if over := r.excess() + 1; r.Most > 0 && over > 0 && r.make(over, r.credit()) < over {
		r.keys.leave(e)
		r.refused.Add(1)
		return ErrFull
	}
	s.counts.tracked.Add(1)
	if r.Most > 0 && r.excess() > -r.Most/16 {
		r.look() // it will be needed soon
	}
	return nil
}

// adopt counts a connection of s that is served already.
func (r *room) adopt(s *Shard, e *entry, owner any) {
	if r.PerKey > 0 {
		r.keys.adopt(e, owner)
	}
	s.counts.tracked.Add(1)
}

// leave makes room for another connection of the same key.
func (r *room) leave(e *entry) { r.keys.leave(e) }

// Rekey asks Key of the tracker's [Capacity] again. It is for a connection whose key was
// empty when it was tracked, as its address was not known yet. If there are PerKey
// connections of its key, it is ended with [ReasonEvict] as [Conn.End] does. On a connection
// that is not live Rekey has no effect. Any goroutine may call it.
func (c *Conn) Rekey() {
	if !c.Live() {
		return
	}
	s := shardOf(c.lane)
	g := s.tracker.gate.Load()
	if g == nil {
		return
	}
	if err := (*g).(*room).keys.enter(&c.entry, c.owner); err != nil {
		s.do(func() { s.dismiss(c, dismissal{reason: ReasonEvict, cause: causeKey, forced: true}) })
	} else if !c.Live() { // it has ended meanwhile, maybe before it was counted
		(*g).leave(&c.entry)
	}
}

// causeKey is the cause of a connection that is ended by Rekey.
const causeKey = "too many of its key"

// excess returns by how many connections there are too many, without those that are
// about to be evicted. r.mu must be held.
func (r *room) excess() int { return r.tracker.live() - r.evicting - r.owed - r.Most }

// credit returns how many more evictions may be owed for newcomers. r.mu must be held.
func (r *room) credit() int { return max(r.Most/mostOwed, 1) - r.owed }

// make evicts n connections. It returns for how many there will be room: as many as credit
// allows may be owed until a walk has found them. r.mu must be held.
func (r *room) make(n, credit int) (made int) {
	for ; made < n && r.evict(); made++ {
	}
	r.look()
	if r.walking {
		more := max(0, min(n-made, credit))
		r.owed += more
		made += more
	}
	return made
}

// settle evicts those that are too many, now or as soon as they may be evicted. r.mu must
// be held.
func (r *room) settle() {
	over := r.excess()
	if r.Most == 0 || over <= 0 || r.make(over, over) == over || r.settling {
		return
	}
	r.settling = true
	time.AfterFunc(time.Until(r.barren), func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.settling = false
		if g := r.tracker.gate.Load(); g != nil && *g == gate(r) {
			r.settle()
		}
	})
}

// evict orders to evict the most idle candidate. It reports whether there is one. r.mu
// must be held.
func (r *room) evict() bool {
	for len(r.candidates) > 0 {
		c := r.candidates[len(r.candidates)-1]
		r.candidates = r.candidates[:len(r.candidates)-1]
		if c.conn.Live() && c.conn.lastActivity().Bits() == c.last && r.wants(&c) {
			s := shardOf(c.conn.lane)
			if s.do(func() { r.report(s.dismiss(c.conn, dismissal{reason: ReasonEvict, still: true, last: c.last})) }) {
				r.evicting++
				return true
			}
		}
	}
	return false
}

// wants reports whether a connection may be evicted.
func (r *room) wants(c *candidate) bool {
	e := &c.conn.entry
	phase := e.phase.Load().first
	for _, exempt := range r.Exempt {
		if exempt.first == phase {
			return false
		}
	}
	return !e.isBusy() && momentOf(r.tracker.clock).since(e.lastActivity()) >= r.Grace
}

// report receives what has come of an order. It is called in a pass.
func (r *room) report(as outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.evicting--
	switch {
	case as != inUse:
		r.ended++
		return
	case r.ended == 0 && r.evicting == 0 && len(r.candidates) == 0:
		r.wither() // none could be evicted, and the next walk would find the same ones
	}
	r.settle() // by another one
}

// wither puts off the next walk. r.mu must be held.
func (r *room) wither() {
	r.barren = time.Now().Add(leastBarren + time.Duration(r.tracker.live())*barrenEach)
}

// look begins a walk if candidates run short, unless it would find none. r.mu must be
// held.
func (r *room) look() {
	if r.walking || len(r.candidates) > r.enough || time.Now().Before(r.barren) {
		return
	}
	r.walking = true
	r.found = mostIdle{most: max(minCollected, r.tracker.live()/shareCollected)}
	done := r.tracker.walk(r.meet)
	go func() {
		<-done
		r.take()
	}()
}

// meet notes a connection that a walk visits, if it is among the most idle.
func (r *room) meet(_ *Shard, c *Conn) {
	met := candidate{c, c.lastActivity().Bits()}
	if r.wants(&met) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.walking { // else the tracker has been closed in the midst of the step
			r.found.add(met)
		}
	}
}

// take takes over what a walk has found.
func (r *room) take() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.walking = false
	r.candidates, r.enough = r.found.sorted(), len(r.found.heap)/2
	r.found, r.ended = mostIdle{}, 0
	if len(r.candidates) == 0 {
		r.wither()
	}
	owed := r.owed
	r.owed = 0
	for ; owed > 0 && r.evict(); owed-- {
	}
	r.settle()
}
