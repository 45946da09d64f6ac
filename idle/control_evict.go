package idle

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
	"github.com/idlewheel/idlewheel/idle/internal/turns"
)

// setQuota limits the rate of new connections. If q is unchanged, the limiter keeps its state.
func (r *room) setQuota(q Quota) {
	switch {
	case q == Quota{}:
		r.quota.Store(nil)
	case r.quota.Load() == nil || q != r.quotaSet:
		r.quota.Store(q.limiter())
	}
	r.quotaSet = q
}

// A room keeps a tracker within its [Capacity]. Each connection takes a place. If no place is
// left, a newcomer gets the place of another connection, which is evicted: the most idle one of a
// random sample. So the cost of an eviction doesn't depend on the number of connections.
//
// A shard ends the connection in its next pass. If the connection turns out to be in use, it gets
// its place back, there is one connection too many, and others are tried.
type room struct {
	tracker *Tracker
	limit   atomic.Pointer[Capacity] // nil without one; what it points to doesn't change
	quota   atomic.Pointer[rate.Limiter]

	setting  sync.Mutex // held by SetCapacity; guards quotaSet
	quotaSet Quota

	_     [64]byte // each Track and Close writes taken
	taken atomic.Int64
	_     [56]byte

	handshakes atomic.Int64 // connections that have handshaking set

	mu       sync.Mutex         // guards what follows; locked before that of a shard
	spared   map[*Conn]struct{} // connections that were in use when they were tried; they aren't tried again for spareFor
	settling bool               // shed is running
}

const (
	sample     = 100 // how many connections are looked at to find one that is evicted
	moreSample = 400 // and if none of those may be
	mostTries  = 8   // to evict another one, if the first is in use
	spareFor   = time.Second

	// At most one in shareEvicting of a shard's connections, plus fewEvicting, are being evicted
	// at any time. So there aren't many more connections than MaxConns if a loop is blocked.
	shareEvicting = 10
	fewEvicting   = 16
)

// beginHandshake counts c if it has handshaking set. It fails if there are too many, and
// endHandshake has to follow.
func (r *room) beginHandshake(c *Conn) error {
	if c.state.Load()&handshaking == 0 {
		return nil
	}
	n := r.handshakes.Add(1)
	if l := r.limit.Load(); l != nil && 0 < l.Handshakes && int64(l.Handshakes) < n {
		return errHandshake
	}
	return nil
}

// endHandshake takes c out of the count. It reports whether it counted.
func (r *room) endHandshake(c *Conn) bool {
	counted := c.state.drop(handshaking)
	if counted {
		r.handshakes.Add(-1)
	}
	return counted
}

// admit takes a place, if there is one, or in any case for a connection that is known.
func (r *room) admit(known bool) error {
	if known {
		r.adopt()
		return nil
	}
	if q := r.quota.Load(); q != nil && !q.Allow() {
		return errRate
	}
	return r.admitBy(r.limit.Load())
}

// admitBy takes a place, if there is one by l, which was the capacity a moment ago.
func (r *room) admitBy(l *Capacity) error {
	err := r.take(l)
	if err == nil && r.limit.Load() != l { // SetCapacity may have looked before the place was taken
		r.mu.Lock()
		defer r.mu.Unlock()
		r.settle()
	}
	return err
}

// take takes a place, if l allows that. l may be nil.
func (r *room) take(l *Capacity) error {
	if l == nil || l.MaxConns == 0 {
		r.taken.Add(1)
		return nil
	}
	for {
		n := r.taken.Load()
		switch {
		case n > int64(l.MaxConns):
			return ErrFull
		case n == int64(l.MaxConns):
			r.mu.Lock()
			evicted := r.evictOne(l, 0)
			r.mu.Unlock()
			if !evicted {
				return ErrFull
			}
		case r.taken.CompareAndSwap(n, n+1):
			return nil
		}
	}
}

// adopt takes a place, even if there is none.
func (r *room) adopt() {
	r.taken.Add(1)
	if l := r.limit.Load(); r.excess(l) > 0 {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.evictOne(l, 0) {
			r.settle()
		}
	}
}

// leave gives the place of c back, unless an eviction has. c has ended.
func (r *room) leave(c *Conn) {
	r.endHandshake(c)
	if c.state.Load()&evicting == 0 {
		r.taken.Add(-1)
	}
}

// evictOne evicts a connection, if one may be evicted, and frees its place. It reports whether it
// did. r.mu must be held.
func (r *room) evictOne(l *Capacity, tries int) bool {
	c := r.pick(l, sample)
	if c.Conn == nil && r.taken.Load() > sample {
		c = r.pick(l, moreSample)
	}
	return c.Conn != nil && r.evict(l, c, tries)
}

// pick returns the most idle connection that may be evicted among about n, or none. If there are
// no more than n, it checks all. r.mu must be held.
func (r *room) pick(l *Capacity, n int) (best candidate) {
	total := max(int(r.taken.Load()), 1)
	for s := range r.tracker.each {
		s.lock.Lock()
		s.conns.lock.Lock()
		all := s.conns.all
		some := min((len(all)*n+total-1)/total, len(all))
		if s.evicting > len(all)/shareEvicting+fewEvicting {
			some = 0 // perhaps its loop is blocked
		}
		for i := range some {
			if some < len(all) {
				i = rand.IntN(len(all))
			}
			c := candidate{Conn: all[i], Last: all[i].lastUse().Bits()}
			if (best.Conn == nil || turns.ByLast(c, best) < 0) && r.wants(l, c.Conn) {
				best = c
			}
		}
		s.conns.lock.Unlock()
		s.lock.Unlock()
	}
	return best
}

// wants reports whether c may be evicted. r.mu must be held.
func (r *room) wants(l *Capacity, c *Conn) bool {
	_, spared := r.spared[c]
	return !spared && c.state.Load()&evicting == 0 && l.wants(c, r.tracker.clock.Moment())
}

// wants reports whether c may be evicted.
func (l *Capacity) wants(c *Conn, m clock.Moment) bool {
	phase := c.phase.Load().first
	for _, exempt := range l.Exempt {
		if exempt.first == phase {
			return false
		}
	}
	st := c.state.Load()
	return st&live != 0 && st&asking == 0 && !c.isBusy() && m.Since(c.lastUse()) >= l.MinIdle
}

// evict evicts a connection, and frees its place. It returns false if the connection has
// ended, or if its shard is closed. r.mu must be held.
func (r *room) evict(l *Capacity, c candidate, tries int) bool {
	s := c.Conn.shard
	if !c.Conn.state.move(live, evicting, 0) {
		return false
	}
	if !s.do(func() {
		// The capacity may have been changed or lifted. The kernel may know of a byte that is a
		// little later than the stamp. That alone doesn't make the connection busy.
		may := func() bool { return r.limit.Load() == l && l.wants(c.Conn, s.clock.Moment()) }
		as := s.dismiss(c.Conn, dismissal{reason: ReasonEvict, still: true, last: c.Last, may: may})
		r.report(l, s, c.Conn, as, tries)
	}) {
		if !c.Conn.state.move(live|evicting, 0, evicting) { // it has ended, and its place is free
			r.taken.Add(-1)
		}
		return false
	}
	s.evicting++
	r.taken.Add(-1)
	return true
}

// report receives the outcome of an eviction.
func (r *room) report(l *Capacity, s *Shard, c *Conn, as outcome, tries int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.evicting--
	if as == inUse && c.state.move(live|evicting, 0, evicting) { // it has a place again
		r.taken.Add(1)
	}
	if as == inUse && l == r.limit.Load() {
		r.spare(c)
	}
	if !r.isOver() {
		return
	}
	if as == inUse && l == r.limit.Load() && tries < mostTries && r.evictOne(l, tries+1) {
		return
	}
	r.settle()
}

// spare notes that c is in use. r.mu must be held.
func (r *room) spare(c *Conn) {
	if len(r.spared) == 0 {
		r.spared = map[*Conn]struct{}{}
		time.AfterFunc(spareFor, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.spared = nil
		})
	}
	r.spared[c] = struct{}{}
}

// excess returns by how many the connections exceed l. l may be nil.
func (r *room) excess(l *Capacity) int {
	if l == nil || l.MaxConns == 0 {
		return 0
	}
	return max(0, int(r.taken.Load())-l.MaxConns)
}

// isOver reports whether there are more connections than MaxConns.
func (r *room) isOver() bool { return r.excess(r.limit.Load()) > 0 }

// settle evicts the connections that are too many. r.mu must be held.
func (r *room) settle() {
	if !r.settling && r.isOver() {
		r.settling = true
		go r.shed()
	}
}

// There is a pause after each try to evict the connections that are too many, so that the tries
// take a fifth of a core at most.
const (
	leastPause = 100 * time.Millisecond
	pauseEach  = time.Microsecond // for each connection
)

// shed evicts the most idle connections until there are no longer too many. Some may not be
// evicted yet, so it tries again.
func (r *room) shed() {
	for over := true; over; {
		l := r.limit.Load()
		wants := func(c *Conn) bool {
			return r.limit.Load() == l && r.excess(l) > 0 && l.wants(c, r.tracker.clock.Moment())
		}
		if n := r.excess(l); n > 0 {
			<-r.tracker.begin(plan{reason: ReasonEvict, most: n, wants: wants}).done
		}
		select {
		case <-r.tracker.stop:
			return
		case <-time.After(leastPause + time.Duration(r.tracker.live())*pauseEach):
		}
		r.mu.Lock()
		over = r.isOver()
		r.settling = over
		r.mu.Unlock()
	}
}
