package idle

import "time"

// A simCapacity is the capacity that the tracker has had since a moment, and the one that
// it had before.
type simCapacity struct {
	now, before Capacity
	since       time.Duration
	refused     uint64
}

// capacitate sets a capacity, or lifts it.
func (w *world) capacitate(pick uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.checkAll()
	c := Capacity{}
	if pick%3 > 0 {
		c = Capacity{MaxConns: 1 + int(pick/8%uint64(len(w.slots))), MinIdle: time.Duration(1+pick/64%40) * w.tick}
		if pick/4096%2 == 0 {
			c.Exempt = []*Phase{w.phases[pick/8192%uint64(len(w.phases))]}
		}
	}
	if h := w.tracker.Policy().Heartbeat; h.CountsAsUse {
		c.MinIdle = min(c.MinIdle, h.Interval-time.Millisecond)
	}
	if err := w.tracker.SetCapacity(c); err != nil {
		w.errorf("at %v: SetCapacity(%+v): %v", w.now(), c, err)
	}
	w.capacity.before, w.capacity.now, w.capacity.since = w.capacity.now, c, w.now()
}

// refuses reports whether a connection may be refused at this moment; w.mu is held.
func (w *world) refuses() bool {
	live := 0
	for _, s := range w.slots {
		if s.conn.shard != nil && s.conn.Live() {
			live++
		}
	}
	w.capacity.refused++
	return w.capacity.now.MaxConns > 0 && live >= w.capacity.now.MaxConns
}

// checkEviction checks that l may make room at this moment; w.mu is held.
func (l *life) checkEviction(err *TimeoutError, now time.Duration) {
	w, g := l.world, l.ledger
	used, _ := g.used()
	lax := 2 * w.tick
	allowed := func(c Capacity) bool {
		exempt := len(c.Exempt) > 0 && c.Exempt[0] == l.phase
		return c.MaxConns > 0 && !exempt && now-used+lax >= c.MinIdle
	}
	switch { // nothing is evicted by a capacity that was lifted, raised or replaced, but at the same instant
	case !allowed(w.capacity.now) && !(now == w.capacity.since && allowed(w.capacity.before)):
		w.errorf("at %v: evicted by %+v: %v", now, w.capacity, l)
	case g.policy.NoInterrupt || !g.read.on || g.write.on:
		w.errorf("at %v: evicted, but busy: %v", now, l)
	case err.Elapsed > now-used+lax || err.Cause != "":
		w.errorf("at %v: evicted with %+v: %v", now, err, l)
	}
}
