package simulation

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// A simCapacity is the capacity that the tracker has had since a moment, the one that it had
// before, and what has come of it.
type simCapacity struct {
	now, before idle.Capacity
	since       time.Duration

	// Connections of loops that were live at countedFrom are counted by key from countedBy on, at
	// the latest, unless their loop is blocked. All others are counted at countedFrom.
	countedFrom, countedBy time.Duration

	over    time.Duration // since when there are too many; never if there are not
	bounds  simQuota
	ofKeys  map[string]*simQuota
	refused uint64
	byKey   uint64
	byRate  uint64

	byHandshake uint64
}

// A simRekey is what may come of a Rekey: the connection is ended, and may be or has to be.
type simRekey struct {
	may, must bool
	by        time.Duration // when that has happened
}

// A simQuota is how many may come at once: most if only those count that came, and least if
// all do that tried to.
type simQuota struct {
	idle.Quota
	at          time.Duration
	most, least float64
}

// set begins anew if the quota is another one.
func (q *simQuota) set(to idle.Quota, now time.Duration) {
	if to != q.Quota {
		*q = simQuota{to, now, burstOf(to), burstOf(to)}
	}
}

// refill adds what has come since.
func (q *simQuota) refill(now time.Duration) {
	more, full := q.PerSecond*(now-q.at).Seconds(), burstOf(q.Quota)
	q.at, q.most, q.least = now, min(q.most+more, full), min(q.least+more, full)
}

// tried notes that somebody wanted to come.
func (q *simQuota) tried(came bool) {
	if q.least = max(q.least-1, 0); came {
		q.most = max(q.most-1, 0)
	}
}

const simRounding = 1e-6

// mayRefuse reports whether a newcomer may be refused, mayAdmit whether it may come.
func (q *simQuota) mayRefuse() bool { return q.PerSecond > 0 && q.least < 1+simRounding }
func (q *simQuota) mayAdmit() bool  { return q.PerSecond == 0 || q.most > 1-simRounding }

// simKeys are the keys of connections. The last one is not limited.
var simKeys = []string{"192.0.2.1", "192.0.2.2", "2001:db8::/64", ""}

func (l *life) keyNow() string { return simKeys[l.key.Load()] }

// RemoteAddr is for ByAddress.
func (l *life) RemoteAddr() net.Addr {
	switch key := l.keyNow(); key {
	case "":
		return nil
	case "2001:db8::/64":
		return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 15: byte(l.slot.n)}), 80))
	}
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(l.keyNow()), 80))
}

// capacitate sets a capacity, raises it, or lifts it; w.mu is held.
func (w *world) capacitate(pick uint64) {
	n := &w.capacity
	c := idle.Capacity{}
	switch pick % 8 {
	case 0: // lift
	case 1: // set the same again
		c = n.now
	case 2: // raise
		if c = n.now; c.MaxConns > 0 {
			c.MaxConns += 2
		}
	default:
		c = w.anyCapacity(pick / 8)
	}
	now := w.now()
	useless := w.areUsed(c, w.phases[0].Policy())
	if err := w.tracker.SetCapacity(c); (err != nil) != useless {
		w.errorf("at %v: SetCapacity(%+v): %v", now, c, err)
	}
	if useless {
		return
	}
	w.noteCapacity(c)
}

// noteCapacity notes that the tracker has the capacity c from now on; w.mu is held.
func (w *world) noteCapacity(c idle.Capacity) {
	n, now := &w.capacity, w.now()
	if !countsKeys(&n.now) || c.Key != nil && (n.now.PerKey == 0 || c.PerKey < n.now.PerKey || !w.areCounted()) { // the Key may be another one
		n.countedFrom, n.countedBy = now, now+w.walkTime()
	}
	if n.bounds.set(c.New, w.real()); c.NewPerKey != n.now.NewPerKey || n.ofKeys == nil {
		n.ofKeys = map[string]*simQuota{}
	}
	n.before, n.now, n.since, n.over = n.now, c, now, never
}

// areUsed reports whether c could evict no connection that begins with the policy p, because its
// pings count as use.
func (w *world) areUsed(c idle.Capacity, p idle.Policy) bool {
	return p.Heartbeat.CountsAsUse && c.MinIdle >= p.Heartbeat.Interval && !slices.Contains(c.Exempt, w.phases[0])
}

// anyCapacity returns a random capacity.
func (w *world) anyCapacity(pick uint64) (c idle.Capacity) {
	next := func(n uint64) uint64 {
		n, pick = pick%n, pick/n
		return n
	}
	quota := func() idle.Quota {
		return idle.Quota{PerSecond: float64(1+next(8)) / (60 * w.tick.Seconds()), Burst: int(next(4))}
	}
	if next(4) > 0 {
		c.MaxConns = 1 + int(next(uint64(len(w.slots))))
		c.MinIdle = time.Duration(1+next(40)) * w.tick // not 0: callbacks track others, and would do so forever
		if next(2) == 0 {
			c.Exempt = []*idle.Phase{w.phases[next(uint64(len(w.phases)))]}
		}
	}
	if next(3) == 0 {
		c.PerKey = 1 + int(next(3))
	}
	if next(6) == 0 {
		c.New = quota()
	}
	if next(6) == 0 {
		c.NewPerKey = quota()
	}
	if w.shakes && next(3) == 0 {
		c.Handshakes = 1 + int(next(4))
	}
	if w.shakes && next(3) == 0 {
		c.HandshakesPerKey = 1 + int(next(2))
	}
	if countsKeys(&c) && w.seed/2%2 == 0 {
		c.Key = func(owner any) string { return lifeOf(owner).keyNow() }
	}
	return c
}

// evictSome calls EvictIdle.
func (w *world) evictSome(pick uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.checkAll()
	most := int(pick % 3)
	if n := w.tracker.EvictIdle(most); n < 0 || n > most || n > 0 && !isSet(&w.capacity.now) {
		w.errorf("at %v: EvictIdle(%d) = %d: %+v", w.now(), most, n, w.capacity)
	}
}

// areCounted reports whether all are counted by key; w.mu is held.
func (w *world) areCounted() bool {
	n := &w.capacity
	return !w.isBlocked() && w.now() > n.countedBy+w.held(n.countedFrom)+w.blocked(n.countedFrom)
}

// A simCount is how many there are at least, as far as they are surely counted, and at most.
type simCount struct{ least, most int }

// ofKey is how many connections with a key are live, and how many of them are in the handshake;
// w.mu is held.
func (w *world) ofKey(key string) (all, shaking simCount) {
	n := &w.capacity
	for _, s := range w.slots {
		l := s.life
		if l == nil || !l.live() || l.keyNow() != key {
			continue
		}
		one := simCount{most: 1}
		if s.conn.Live() && (l.keyedAt > n.countedFrom || s.home.loop == nil || w.areCounted()) && !l.isRekeying() {
			one.least = 1
		}
		all.add(one)
		if l.shaking {
			shaking.add(one)
		}
	}
	return all, shaking
}

func (n *simCount) add(m simCount) { n.least, n.most = n.least+m.least, n.most+m.most }

// mayFill reports whether there may be as many as a limit allows, mustFill whether there are. A
// limit of 0 is none.
func (n simCount) mayFill(limit int) bool  { return limit > 0 && n.most >= limit }
func (n simCount) mustFill(limit int) bool { return limit > 0 && n.least >= limit }

// attempt holds what has come of tracking l against the capacity, and returns an error that
// it does not explain; w.mu is held, and l is in no slot yet.
func (w *world) attempt(l *life, err error, known bool) error {
	n, now := &w.capacity, w.now()
	key := l.keyNow()
	ofKey, early := w.ofKey(key)
	shaking := w.shaking()
	of := w.quotaOf(key)
	n.bounds.refill(w.real())
	wrong := func(what string) {
		w.errorf("at %v: %s: %v; %+v of key %q, %+v of them and %+v in all in the handshake, %d live, %+v, %+v, %+v", now, what, err, ofKey, key, early, shaking, w.live(), *n, n.bounds, *of)
	}
	keyed, st := key != "", idle.Stats{}
	if errors.Is(err, idle.ErrFull) {
		st = w.tracker.Stats()
	}
	switch {
	case known && errors.Is(err, idle.ErrFull):
		wrong("refused, but known")
	case known:
		return err
	case err == nil && keyed && ofKey.mustFill(n.now.PerKey):
		wrong("one too many of a key")
	case err == nil && shaking.mustFill(n.now.Handshakes):
		wrong("one too many in the handshake")
	case err == nil && keyed && early.mustFill(n.now.HandshakesPerKey):
		wrong("one too many of a key in the handshake")
	case err == nil && (!of.mayAdmit() || !n.bounds.mayAdmit()):
		wrong("too many in a time")
	case err == nil && n.now.MaxConns > 0 && w.live() > n.now.MaxConns && n.over < now-w.settleTime() && !w.isBlocked():
		wrong("tracked, but there are too many already")
	case st.RefusedKey > n.byKey:
		if n.byKey++; !keyed || !ofKey.mayFill(n.now.PerKey) {
			wrong("refused for its key")
		}
	case st.RefusedRate > n.byRate:
		if n.byRate++; !of.mayRefuse() && !n.bounds.mayRefuse() {
			wrong("refused for the rate")
		}
	case st.RefusedHandshake > n.byHandshake:
		if n.byHandshake++; !shaking.mayFill(n.now.Handshakes) && !(keyed && early.mayFill(n.now.HandshakesPerKey)) {
			wrong("refused for its handshake")
		}
	case errors.Is(err, idle.ErrFull):
		if n.now.MaxConns == 0 || w.live() < n.now.MaxConns || w.live() == n.now.MaxConns && w.evictable(w.ago(spareFor+100*w.tick)) != nil {
			wrong("refused")
		}
	}
	of.tried(err == nil)
	n.bounds.tried(err == nil)
	l.shaking = countsHandshakes(&n.now) && err == nil
	if errors.Is(err, idle.ErrFull) {
		n.refused++
		return nil
	}
	return err
}

// quotaOf returns the quota of a key, as it is now; w.mu is held.
func (w *world) quotaOf(key string) *simQuota {
	n, of := &w.capacity, &simQuota{}
	if key != "" && n.now.NewPerKey.PerSecond > 0 {
		if n.ofKeys[key] == nil {
			n.ofKeys[key] = &simQuota{}
		}
		of = n.ofKeys[key]
		of.set(n.now.NewPerKey, w.real())
	}
	of.refill(w.real())
	return of
}

// shaking is how many have not left the handshake; w.mu is held.
func (w *world) shaking() (n simCount) {
	for _, s := range w.slots {
		if l := s.life; l != nil && l.live() && l.shaking {
			n.most++
			if s.conn.Live() {
				n.least++
			}
		}
	}
	return n
}

// rekey has the key of l be asked for again. If it had none, it may have one now; w.mu is
// held.
func (w *world) rekey(l *life, pick uint64) {
	n, had := &w.capacity, l.keyNow()
	if !l.live() || !l.conn.Live() || had != "" && !w.areCounted() || l.isRekeying() {
		return
	}
	if had != "" {
		l.conn.Rekey() // it is counted, so nothing happens
		return
	}
	to := int32(pick % uint64(len(simKeys)))
	key := simKeys[to]
	ofKey, early := w.ofKey(key)
	if !l.shaking {
		early = simCount{}
	}
	of := w.quotaOf(key)
	l.key.Store(to)
	l.conn.Rekey()
	if key == "" {
		return
	}
	l.keyedAt = w.now()
	l.rekeyed = simRekey{
		must: ofKey.mustFill(n.now.PerKey) || early.mustFill(n.now.HandshakesPerKey) || !of.mayAdmit(),
		may:  ofKey.mayFill(n.now.PerKey) || early.mayFill(n.now.HandshakesPerKey) || of.mayRefuse(),
		by:   w.now() + 4*w.tick,
	}
	of.tried(!l.rekeyed.may)
}

// isRekeying reports whether l may be ended soon, because there are too many of its key.
func (l *life) isRekeying() bool {
	return l.rekeyed.may && l.world.now() <= l.rekeyed.by+l.held(l.rekeyed.by) || l.rekeyed.may && l.slot.home.isBlocked()
}

// checkRekey checks that l may be ended at this moment for its key, or for those that came
// lately; w.mu is held.
func (l *life) checkRekey(err *idle.TimeoutError, now time.Duration) {
	if r := l.rekeyed; !r.may || now > r.by+l.held(r.by) {
		l.world.errorf("at %v: ended by Rekey: %v; %+v: %v", now, err, r, l)
	}
}

// settleTime is how long there may be too many, although some of them may be evicted; w.mu is
// held. One that was in use is not tried again for a while.
func (w *world) settleTime() time.Duration {
	return spareFor + leastPause + walksEvery + 2*w.walkTime() + 10*w.tick
}

// ago returns an instant that was d ago on a timer, or earlier. Where the process stood still, only
// the tracker's clock went on. w.mu is held.
func (w *world) ago(d time.Duration) time.Duration {
	at := w.now() - d
	for _, s := range slices.Backward(w.stood) {
		if s.at+s.took < at {
			break
		}
		at -= s.took
	}
	return at
}

// evictable returns a connection that may have been evicted at any time since an instant;
// w.mu is held.
func (w *world) evictable(since time.Duration) *life {
	for _, s := range w.slots {
		l := s.life
		if l == nil || !l.live() || !l.conn.Live() || l.underWay() { // the rest is so at this moment
			continue
		}
		_, used := l.ledger.idleSince() // maybe since checkCapacity has looked
		if from := used + w.capacity.now.MinIdle + 4*w.tick; max(l.evictable, from) <= since-s.home.blocked(l.evictable) {
			return l
		}
	}
	return nil
}

// checkCapacity notes who may be evicted, and looks whether there are too many for longer
// than it may take to evict one; w.mu is held.
func (w *world) checkCapacity() {
	n, now := &w.capacity, w.now()
	for _, s := range w.slots {
		l := s.life
		if l == nil || !l.live() {
			continue
		}
		g := l.ledger
		_, used := g.idleSince()
		free := !g.policy.NoInterrupt && g.read.on && !g.write.on && !l.asked && !g.pinging && !s.home.isBlocked() &&
			(!l.probed || l.kernelIn <= g.in) && now-used >= n.now.MinIdle+4*w.tick && now-g.replaced > w.walkTime()
		if exempt := len(n.now.Exempt) > 0 && n.now.Exempt[0] == l.phase; !free || exempt {
			l.evictable = never
		} else {
			l.evictable = min(l.evictable, now)
		}
	}
	if n.now.MaxConns == 0 || w.live()-w.liveOnBlocked() <= n.now.MaxConns {
		n.over = never
		return
	}
	n.over = min(n.over, now)
	since := now - w.settleTime() - w.held(n.since)
	if l := w.evictable(since); l != nil && n.over <= since {
		w.errorf("at %v: %d are too many since %v, and one may be evicted since %v: %+v: %v", now, w.live(), n.over, l.evictable, *n, l)
	}
}

// liveOnBlocked returns how many connections are live on blocked loops. They may have made room
// already, and end when their loop goes on; w.mu is held.
func (w *world) liveOnBlocked() (n int) {
	for _, s := range w.slots {
		if l := s.life; l != nil && l.live() && s.home.isBlocked() {
			n++
		}
	}
	return n
}

// checkEviction checks that l may make room at this moment; w.mu is held.
func (l *life) checkEviction(err *idle.TimeoutError, now time.Duration) {
	w, g := l.world, l.ledger
	used, _ := g.used()
	lax := 2 * w.tick
	allowed := func(c idle.Capacity) bool {
		exempt := slices.Contains(c.Exempt, l.phase)
		return isSet(&c) && !exempt && now-used+lax >= c.MinIdle
	}
	if err.Cause != "" {
		l.checkRekey(err, now)
		return
	}
	switch { // nothing is evicted by a capacity that was lifted, raised or replaced, but at the same instant
	case !allowed(w.capacity.now) && !(now == w.capacity.since && now != l.spared && allowed(w.capacity.before)):
		w.errorf("at %v: evicted by %+v: %v", now, w.capacity, l)
	case g.policy.NoInterrupt || !g.read.on || g.write.on:
		w.errorf("at %v: evicted, but busy: %v", now, l)
	case err.Elapsed > now-used+lax:
		w.errorf("at %v: evicted with %+v: %v", now, err, l)
	}
}
