package idle

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// ErrFull is returned by Track when the capacity allows no other connection; see
// [Capacity].
var ErrFull = errors.New("idle: no room for another connection")

// Capacity limits how many connections a tracker has. Every field is off when zero.
type Capacity struct {
	// MaxConns is how many connections there may be. When there are that many, a new one
	// takes the place of the one that has been idle longest among 100 at random, which is one of
	// the most idle 1 % on average. That one is ended with [ReasonEvict] in the next pass, so
	// for some milliseconds there are a few more, or for as long as its event loop is blocked.
	// If none can be evicted, Track fails with [ErrFull] at once, and Stats.Refused counts
	// that. If only one of hundreds can be, it may not be found.
	MaxConns int

	// MinIdle is how long a connection has to have been idle before it may be evicted. Use
	// more than honest clients are silent, or an attacker flushes them out by opening
	// connections. An attacker who opens them all the time keeps newcomers waiting, or
	// has them refused, for as long; PerKey helps against one with few addresses. Where
	// pings count as use (Heartbeat.CountsAsUse), it must be less than their Interval.
	MinIdle time.Duration

	// Exempt are phases whose connections are not evicted. Busy connections never are;
	// see [Tracker.Drain].
	Exempt []*Phase

	// PerKey is how many connections there may be with the same key. More are refused
	// with [ErrFull]; none is evicted for them. Key returns the key of a connection, and
	// is [ByAddress] by default. It is called by Track, when the connection has just been
	// accepted, and must not block, as other connections wait for it. The empty key is not
	// limited. If the key is not known yet, as behind the PROXY protocol, return the empty
	// one, and call [Conn.Rekey] later; idlenet does so with ByAddress.
	PerKey int
	Key    func(owner any) string

	// New limits the rate of new connections, and NewPerKey that of new connections with the
	// same key. Others are refused with [ErrFull], and Stats.RefusedRate counts them. None is
	// evicted for them.
	New, NewPerKey Quota

	// Handshakes is how many connections there may be that haven't left the handshake: those
	// that were tracked since it was set, and that have entered no phase yet but ones with
	// Policy.Handshake. More are refused with [ErrFull], and Stats.RefusedHandshake counts them;
	// none is evicted for them. The tracker's own policy must have Handshake set too. In the HTTP
	// adapters the handshake lasts until the first request, or the preface of HTTP/2.
	//
	// HandshakesPerKey is how many of these there may be with the same key.
	Handshakes, HandshakesPerKey int
}

// isZero reports whether c sets nothing.
func (c *Capacity) isZero() bool {
	return c.MaxConns == 0 && !c.counts() && c.MinIdle == 0 && len(c.Exempt) == 0 && c.New == Quota{} && c.Handshakes == 0
}

// counts reports whether c limits connections by key.
func (c *Capacity) counts() bool {
	return c.PerKey > 0 || c.NewPerKey != Quota{} || c.HandshakesPerKey > 0
}

// limitsHandshakes reports whether new connections count as ones in the handshake.
func (c *Capacity) limitsHandshakes() bool { return c.Handshakes > 0 || c.HandshakesPerKey > 0 }

func (c *Capacity) validate(t *Tracker) error {
	switch {
	case c.MaxConns < 0:
		return fmt.Errorf("idle: Capacity.MaxConns is %d; use 0 for no limit", c.MaxConns)
	case c.PerKey < 0:
		return fmt.Errorf("idle: Capacity.PerKey is %d; use 0 for no limit", c.PerKey)
	case c.Handshakes < 0:
		return fmt.Errorf("idle: Capacity.Handshakes is %d; use 0 for no limit", c.Handshakes)
	case c.HandshakesPerKey < 0:
		return fmt.Errorf("idle: Capacity.HandshakesPerKey is %d; use 0 for no limit", c.HandshakesPerKey)
	case c.Key != nil && !c.counts():
		return errors.New("idle: Capacity.Key is set, but PerKey is 0, and NewPerKey and HandshakesPerKey too; set one of them")
	}
	for i, p := range c.Exempt {
		if p == nil || p.clock != t.clock {
			return fmt.Errorf("idle: Capacity.Exempt[%d] is nil or a phase of another tracker; make it with Phase of this one", i)
		}
	}
	return cmp.Or(checkDuration("Capacity.MinIdle", c.MinIdle), c.New.validate("Capacity.New"), c.NewPerKey.validate("Capacity.NewPerKey"),
		c.suits(t, t.phase.Policy()))
}

// suits returns an error if connections that begin with the policy p would not be limited as c
// says. c may be nil.
func (c *Capacity) suits(t *Tracker, p Policy) error {
	h := p.Heartbeat
	switch {
	case c == nil:
	case c.limitsHandshakes() && !p.Handshake:
		return c.errHandshakePolicy()
	case !t.opts.PhasesOnly && !slices.Contains(c.Exempt, t.phase) && h.CountsAsUse && c.MinIdle >= h.Interval:
		return fmt.Errorf("idle: Capacity.MinIdle is %v, but connections are pinged every %v, and Heartbeat.CountsAsUse is set, so none would be evicted; use less than the Interval, or don't set CountsAsUse", c.MinIdle, h.Interval)
	}
	return nil
}

// errHandshakePolicy is the error for Handshakes or HandshakesPerKey that would limit nothing.
func (c *Capacity) errHandshakePolicy() error {
	name, most := "Handshakes", c.Handshakes
	if most == 0 {
		name, most = "HandshakesPerKey", c.HandshakesPerKey
	}
	return fmt.Errorf("idle: Capacity.%s is %d, but the policy with which connections begin does not have Handshake set, so none would count; set it, and have connections enter another phase after the handshake", name, most)
}

// SetCapacity sets or changes the capacity of t. The zero Capacity lifts all its limits.
// If there are more connections than MaxConns, newcomers are refused, and the most idle ones are
// evicted at once. Those that may not be evicted yet follow when they may. This ends if the
// capacity is raised or lifted. Connections that exceed PerKey stay. If Key is another function,
// each connection counts by its old key until the tracker has looked at it.
//
// SetCapacity fails with [ErrClosed] if the tracker is closed. It also fails if a value in
// c is invalid, and the error names it. Then nothing changes. Any goroutine may call it.
func (t *Tracker) SetCapacity(c Capacity) error {
	t.mustBeMade()
	r := &t.room
	r.setting.Lock()
	defer r.setting.Unlock()
	c.Exempt = slices.Clone(c.Exempt)
	if err := t.setLimit(&c); err != nil {
		return err
	}
	t.countKeys(&c)
	r.setQuota(c.New)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle()
	return nil
}

// setLimit checks and stores c. It holds t.mu, as SetPolicy does when it compares a policy with
// the capacity.
func (t *Tracker) setLimit(c *Capacity) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := c.validate(t); err != nil {
		return err
	}
	switch {
	case t.closed:
		return ErrClosed
	case c.isZero():
		t.room.limit.Store(nil)
	default:
		t.room.limit.Store(c)
	}
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

// EvictIdle evicts n of the most idle connections, as [Capacity] allows, and returns how
// many will be ended shortly. It is for adapters that run out of something else than the
// number of connections, such as descriptors. Without a Capacity it does nothing.
func (t *Tracker) EvictIdle(n int) (evicted int) {
	t.mustBeMade()
	r := &t.room
	r.mu.Lock()
	defer r.mu.Unlock()
	for l := r.limit.Load(); l != nil && evicted < n && r.evictOne(l, 0); evicted++ {
		r.taken.Add(-1)
	}
	return evicted
}

// countKeys has connections counted by key, as c says.
func (t *Tracker) countKeys(c *Capacity) {
	if !c.counts() {
		t.keys.Store(nil)
		return
	}
	k := t.keys.Load()
	if k == nil {
		k = &keys{calls: &t.calls, of: map[*Conn]keyed{}, count: map[string]ofKey{}}
	}
	again := k.set(c)
	t.keys.Store(k)
	if again {
		t.walk(func(_ *Shard, c *Conn) { k.adopt(c) })
	}
}

// setQuota limits how many connections come. If nothing changes, what was used stays used.
func (r *room) setQuota(q Quota) {
	switch {
	case q == Quota{}:
		r.quota.Store(nil)
	case r.quota.Load() == nil || q != r.quotaSet:
		r.quota.Store(q.limiter())
	}
	r.quotaSet = q
}

// Rekey asks Key of the tracker's [Capacity] again. It is for a connection whose key was
// empty when it was tracked, as its address was not known yet. If PerKey, NewPerKey or
// HandshakesPerKey allow no other connection of its key, it is ended with [ReasonEvict] as
// [Conn.End] does. While Track is running, Rekey only has Track ask again when it has admitted
// the connection. On one that is not tracked it has no effect. Any goroutine may call it.
func (c *Conn) Rekey() {
	if c.state.move(entering, rekeyed, 0) || !c.Live() {
		return
	}
	s := c.shard
	keys := s.tracker.keys.Load()
	if err := keys.enter(c, c.owner, false); err != nil {
		cause := causeKey
		switch {
		case errors.Is(err, errRate):
			cause = causeRate
		case errors.Is(err, errHandshake):
			cause = causeHandshake
		}
		s.do(func() { s.dismiss(c, dismissal{reason: ReasonEvict, cause: cause, forced: true}) })
	} else if !c.Live() { // it has ended meanwhile, maybe before it was counted
		keys.leave(c)
	}
}

// The causes of connections that are ended by Rekey.
const (
	causeKey  = "too many of its key"
	causeRate = "too many of its key in so short a time"

	causeHandshake = "too many of its key in the handshake"
)

// A room keeps a tracker within its [Capacity]. Each connection takes a place. A newcomer for
// whom no place is left gets that of another connection, which is evicted: the most idle one
// of some that are looked at at random. So an eviction costs the same, whatever the number of
// connections.
//
// A shard ends the connection in its next pass. If it finds it in use, that connection has
// its place back, there is one too many, and others are tried.
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
	spared   map[*Conn]struct{} // those that were found in use lately, and are not tried again for spareFor
	settling bool               // shed is running
}

const (
	sample     = 100 // how many connections are looked at to find one that is evicted
	moreSample = 400 // and if none of those may be
	mostTries  = 8   // to evict another one, if the first is in use
	spareFor   = time.Second

	// A shard has evictions under way for one in shareEvicting of its connections at most,
	// and fewEvicting. So there are not many more connections than MaxConns if a loop is blocked.
	shareEvicting = 10
	fewEvicting   = 16
)

// limitsHandshakes reports whether new connections count as ones in the handshake.
func (r *room) limitsHandshakes() bool {
	l := r.limit.Load()
	return l != nil && l.limitsHandshakes()
}

// beginHandshake counts c if it has handshaking set. It fails if there are too many.
func (r *room) beginHandshake(c *Conn) error {
	if c.state.Load()&handshaking == 0 {
		return nil
	}
	n := r.handshakes.Add(1)
	if l := r.limit.Load(); l != nil && 0 < l.Handshakes && int64(l.Handshakes) < n {
		r.endHandshake(c)
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

// admit takes a place, if there is one.
func (r *room) admit() error {
	if q := r.quota.Load(); q != nil && !q.Allow() {
		return errRate
	}
	l := r.limit.Load()
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
			defer r.mu.Unlock()
			if !r.evictOne(l, 0) {
				return ErrFull
			}
			return nil
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
		if r.evictOne(l, 0) {
			r.taken.Add(-1)
		} else {
			r.settle()
		}
	}
}

// leave gives the place of c back, which has ended, unless another connection has it.
func (r *room) leave(c *Conn) {
	r.endHandshake(c)
	if c.state.Load()&evicting == 0 {
		r.taken.Add(-1)
	}
}

// evictOne has a connection evicted that may be. It reports whether there is one. Its place is
// the caller's then. r.mu must be held.
func (r *room) evictOne(l *Capacity, tries int) bool {
	c := r.pick(l, sample)
	if c.conn == nil && r.taken.Load() > sample {
		c = r.pick(l, moreSample)
	}
	return c.conn != nil && r.evict(l, c, tries)
}

// pick returns the most idle of about n connections that may be evicted, or none. If there
// are no more than n, it looks at all. r.mu must be held.
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
			c := candidate{all[i], all[i].lastUse().Bits()}
			if (best.conn == nil || byStamp(c, best) < 0) && r.wants(l, c.conn) {
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
	return !spared && c.state.Load()&evicting == 0 && l.wants(c, momentOf(r.tracker.clock))
}

// wants reports whether c may be evicted.
func (l *Capacity) wants(c *Conn, m moment) bool {
	phase := c.phase.Load().first
	for _, exempt := range l.Exempt {
		if exempt.first == phase {
			return false
		}
	}
	st := c.state.Load()
	return st&live != 0 && st&asking == 0 && !c.isBusy() && m.since(c.lastUse()) >= l.MinIdle
}

// evict has a connection evicted, and gives its place away. It reports false if the connection
// has ended, or if its shard is closed. r.mu must be held.
func (r *room) evict(l *Capacity, c candidate, tries int) bool {
	s := c.conn.shard
	if !c.conn.state.move(live, evicting, 0) {
		return false
	}
	if !s.do(func() {
		as := inUse
		if r.limit.Load() == l { // else the capacity has been changed or lifted
			// The kernel may know of a byte a little later than the stamp, which alone spares nobody.
			may := func() bool { return l.wants(c.conn, momentOf(s.clock)) }
			as = s.dismiss(c.conn, dismissal{reason: ReasonEvict, still: true, last: c.last, may: may})
		}
		r.report(l, s, c.conn, as, tries)
	}) {
		if !c.conn.state.move(live|evicting, 0, evicting) { // it has ended, and left its place to nobody
			r.taken.Add(-1)
		}
		return false
	}
	s.evicting++
	return true
}

// report hears what has come of an eviction.
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
		r.taken.Add(-1)
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

// excess returns how many connections there are more than l allows. l may be nil.
func (r *room) excess(l *Capacity) int {
	if l == nil || l.MaxConns == 0 {
		return 0
	}
	return max(0, int(r.taken.Load())-l.MaxConns)
}

// isOver reports whether there are more connections than MaxConns.
func (r *room) isOver() bool { return r.excess(r.limit.Load()) > 0 }

// settle has those evicted that are too many. r.mu must be held.
func (r *room) settle() {
	if !r.settling && r.isOver() {
		r.settling = true
		go r.shed()
	}
}

// After each try to evict those that are too many is a pause, so that they take a fifth of a
// core at most.
const (
	leastPause = 100 * time.Millisecond
	pauseEach  = time.Microsecond // for each connection
)

// shed evicts the most idle connections until there are not too many any more. Some may not be
// evicted yet, so it tries again.
func (r *room) shed() {
	for over := true; over; {
		l := r.limit.Load()
		wants := func(c *candidate) bool {
			return r.limit.Load() == l && r.excess(l) > 0 && l.wants(c.conn, momentOf(r.tracker.clock))
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
