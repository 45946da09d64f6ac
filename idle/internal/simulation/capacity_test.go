package simulation

import (
	"errors"
	"slices"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// A simCapacity is the capacity that the tracker has had since a moment, the one that it had
// before, and what has come of it.
type simCapacity struct {
	now, before idle.Capacity
	since       time.Duration
	lowered     time.Duration // when the visit is over that evicts those that are too many
	refused     uint64

	// The last newcomer that has come although there was no place: when, and those that may have been
	// evicted for it.
	came time.Duration
	some []*life
	all  int // how many were live then
}

// isSet reports whether c has anything to say; see Capacity.
func isSet(c *idle.Capacity) bool { return c.MaxConns > 0 || c.MinIdle > 0 || len(c.Exempt) > 0 }

// areUsed reports whether c could evict no connection that begins with the policy p, because its
// pings count as use.
func (w *world) areUsed(c idle.Capacity, p idle.Policy) bool {
	return p.Heartbeat.Interval > 0 && !p.Heartbeat.Passive && !p.ExplicitUse && c.MinIdle >= p.Heartbeat.Interval && !slices.Contains(c.Exempt, w.phases[0]) && isSet(&c)
}

// capacitate sets a capacity, raises it, or lifts it; w.mu is held.
func (w *world) capacitate(pick uint64) {
	n, now := &w.capacity, w.now()
	c := idle.Capacity{}
	next := func(n uint64) uint64 {
		n, pick = pick%n, pick/n
		return n
	}
	switch next(8) {
	case 0: // lift
	case 1: // set the same again
		c = n.now
	case 2: // raise
		if c = n.now; c.MaxConns > 0 {
			c.MaxConns += 2
		}
	default:
		c.MaxConns = 1 + int(next(uint64(len(w.slots))))
		c.MinIdle = time.Duration(1+next(40)) * w.tick // not 0: callbacks track others, and would do so forever
		if next(2) == 0 {
			c.Exempt = []*idle.Phase{w.phases[next(uint64(len(w.phases)))]}
		}
	}
	useless := w.areUsed(c, w.phases[0].Policy())
	if err := w.tracker.SetCapacity(c); (err != nil) != useless {
		w.errorf("at %v: SetCapacity(%+v): %v", now, c, err)
	}
	if useless {
		return
	}
	n.before, n.now, n.since, n.lowered, n.some = n.now, c, now, now+w.visitTime(), nil
}

// evictSome calls EvictIdle.
func (w *world) evictSome(pick uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.checkAll()
	most, n := int(pick%3), &w.capacity
	free := w.evictable(w.now() - w.tick)
	switch got := w.tracker.EvictIdle(most); {
	case got < 0 || got > most || got > 0 && !isSet(&n.now):
		w.errorf("at %v: EvictIdle(%d) = %d: %+v", w.now(), most, got, n)
	case len(n.some) > 0 && w.now() <= n.came+4*w.tick: // one is being evicted already, for a newcomer
	case isSet(&n.now) && got < min(most, free) && !w.isBlocked():
		w.errorf("at %v: EvictIdle(%d) = %d, and %d may be evicted: %+v", w.now(), most, got, free, n)
	}
}

// attempt holds what has come of tracking l against the capacity, and returns an error that
// it does not explain; w.mu is held, and l is in no slot yet.
func (w *world) attempt(l *life, err error) error {
	n, now := &w.capacity, w.now()
	live, free := w.live(), w.evictable(now-w.tick)
	over := live + 1 - n.now.MaxConns
	may := slices.DeleteFunc(w.someLives(), func(o *life) bool { return o.slot == l.slot || !o.mayBeEvicted() })
	full := errors.Is(err, idle.ErrFull)
	switch {
	case full && (n.now.MaxConns == 0 || over <= 0):
		w.errorf("at %v: refused: %d live, %+v", now, live, n)
	case full && over <= free && over <= 2 && !w.isBlocked():
		w.errorf("at %v: refused, and %d of %d may be evicted: %+v", now, free, live, n)
	case err == nil && n.now.MaxConns > 0 && over > 16+n.now.MaxConns/100:
		w.errorf("at %v: tracked, but there are %d: %+v", now, live, n)
	case err == nil && n.now.MaxConns > 0 && over > 0:
		n.came, n.some, n.all = now, may, live+1
	}
	if full {
		n.refused++
		return nil
	}
	return err
}

// someLives returns those that are live.
func (w *world) someLives() (all []*life) {
	for _, s := range w.slots {
		if s.life != nil && s.life.live() && s.conn.Live() {
			all = append(all, s.life)
		}
	}
	return all
}

// mayBeEvicted reports whether l may be evicted, as far as the ledger can tell. One that was in a moment
// ago may be about to be; w.mu is held.
func (l *life) mayBeEvicted() bool {
	n, g, w := &l.world.capacity, l.ledger, l.world
	used := g.lastUse()
	return w.stalls || (g.read.on || l.movedAt > w.now()-3*w.tick) && !slices.Contains(n.now.Exempt, l.phase) && w.now()-used+w.lax() >= n.now.MinIdle
}

// evictable returns how many may have been evicted at any time since an instant, for sure; w.mu is held.
func (w *world) evictable(since time.Duration) (n int) {
	for _, l := range w.someLives() {
		if l.isEvictable(since) {
			n++
		}
	}
	return n
}

// isEvictable reports whether l may have been evicted at any time since an instant, for sure; w.mu is
// held.
func (l *life) isEvictable(since time.Duration) bool {
	w, n := l.world, &l.world.capacity
	used := l.ledger.lastUse()
	return l.isFree() && l.free <= since && !l.probed && max(used, l.trackedAt)+n.now.MinIdle+w.lax()+w.tick <= since && n.since <= since &&
		!slices.Contains(n.now.Exempt, l.phase) && !l.underWay() && w.held(since) == 0
}

// checkCapacity looks for connections that should have been evicted; w.mu is held.
func (w *world) checkCapacity() {
	n, now := &w.capacity, w.now()
	over := w.live() - n.now.MaxConns
	if n.now.MaxConns == 0 || over <= 0 || w.isBlocked() || w.blocked(n.since) > 0 {
		n.some = nil
		return
	}
	if now > n.came+4*w.tick && len(n.some) > 0 {
		// Those that might have been evicted for a newcomer are as they were, and none has left.
		if !slices.ContainsFunc(n.some, func(l *life) bool { return !l.live() || !l.isEvictable(n.came) }) && w.live() >= n.all {
			w.errorf("at %v: one has come at %v in the place of another, and none was evicted: %+v", now, n.came, n)
		}
		n.some = nil
	}
	if now <= n.lowered || n.came >= n.since {
		return
	}
	for _, l := range w.someLives() { // one of the most idle ones
		used := l.ledger.lastUse()
		before := slices.DeleteFunc(w.someLives(), func(o *life) bool {
			return o == l || o.ledger.lastUse() > used+w.lax()
		})
		if l.isEvictable(n.since) && len(before) < over {
			w.errorf("at %v: %d are too many since %v, and one was not evicted: %+v: %v", now, over, n.since, n, l)
		}
	}
}

// checkEviction checks that l may make room at this moment; w.mu is held.
func (l *life) checkEviction(now time.Duration) {
	w := l.world
	used := l.ledger.lastUse()
	allowed := func(c idle.Capacity) bool {
		return isSet(&c) && !slices.Contains(c.Exempt, l.phase) && now-used+2*w.tick >= c.MinIdle
	}
	// Nothing is evicted by a capacity that was lifted, raised or replaced, but at the same instant.
	if !allowed(w.capacity.now) && !(now == w.capacity.since && now != l.spared && allowed(w.capacity.before)) {
		w.errorf("at %v: evicted by %+v: %v", now, w.capacity, l)
	}
}
