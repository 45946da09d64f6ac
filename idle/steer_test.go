package idle

import (
	"slices"
	"time"
)

// A visit takes a moment, and no more than the budget of a pass, so that a pass makes
// one step of a walk.
const (
	visitTakes = time.Nanosecond
	mostVisits = 100 * visitTakes
)

// A simWalk is a walk, and whom it has to visit.
type simWalk struct {
	done    <-chan struct{}
	began   time.Duration
	by      time.Duration // when it has to be over
	live    []*life       // since it began
	visited map[*life]int
}

// over reports whether the walk has ended.
func (v *simWalk) over() bool {
	select {
	case <-v.done:
		return true
	default:
		return false
	}
}

// steer begins a walk, or replaces a policy.
func (w *world) steer(what int, pick uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.checkAll()
	switch {
	case what == replaceOne:
		w.replace(pick)
	case what == press: // as pressure.Follow does
		for i := range w.phases {
			w.replacePhase(i, pick)
		}
	case len(w.walks) < 3:
		w.goWalking()
	}
}

// walkTime is how long it may take until all walks are over, and one that begins now;
// w.mu is held. A pass makes one step at least. There may be two walks of ours beside
// those that are counted: each Replace begins one unless one waits.
func (w *world) walkTime() time.Duration {
	steps := len(w.slots) + 3
	return time.Duration((len(w.walks)+len(w.ops)+mostCensuses+3)*steps) * w.tick
}

// goWalking begins a walk; w.mu is held.
func (w *world) goWalking() {
	v := &simWalk{visited: map[*life]int{}, began: w.now(), by: w.now() + w.walkTime()}
	for _, s := range w.slots {
		if l := s.life; l != nil && l.live() {
			v.live = append(v.live, l)
		}
	}
	w.walks = append(w.walks, v)
	v.done = w.tracker.walk(func(s *Shard, c *Conn) { w.visit(v, s, c) })
}

// visit is what a walk does with each connection.
func (w *world) visit(v *simWalk, s *Shard, c *Conn) {
	w.mu.Lock()
	l := c.owner.(interface{ self() *life }).self()
	w.visits++
	if v.visited[l]++; v.visited[l] > 1 {
		w.errorf("at %v: visited twice: %v", w.now(), l)
	}
	if w.over.Load() || v.over() && !w.closing {
		w.errorf("at %v: visited, but the walk is over: %v", w.now(), l)
	}
	for _, where := range []string{"visit", "visit once more", "visit again"} {
		if c.Live() && !l.underWay() {
			l.meddle(where, false)
		}
	}
	w.mu.Unlock()
	w.stallAs(1 + l.slot.n)
	s.lock.Lock()
	next, ok := s.wheel.Next()
	s.lock.Unlock()
	if !ok || int64(next) > s.clock.Settled() { // else what is due would be put off
		time.Sleep(visitTakes)
	}
}

// passOver takes l out of those that have to be visited, as its OnTimeout is running;
// w.mu is held.
func (w *world) passOver(l *life) {
	for _, o := range w.ops {
		o.live = slices.DeleteFunc(o.live, func(one *life) bool { return one == l })
	}
}

// checkWalks holds walks that are over against their ledger; w.mu is held.
func (w *world) checkWalks() {
	w.walks = slices.DeleteFunc(w.walks, func(v *simWalk) bool {
		if !v.over() {
			if now := w.now(); !w.isBlocked() && now > v.by+w.held(v.by)+w.blocked(v.began) {
				w.errorf("at %v: a walk is not over that had to be at %v", now, v.by)
			}
			return false
		}
		for _, l := range v.live {
			if l.live() && v.visited[l] != 1 {
				w.errorf("at %v: live throughout a walk, and visited %d times: %v", w.now(), v.visited[l], l)
			}
		}
		return true
	})
}

// replace replaces the policy of a phase by one of the same kinds of limits, which are
// longer or shorter. The age is replaced in all phases at once; w.mu is held.
func (w *world) replace(pick uint64) {
	scaled := func(d time.Duration) time.Duration { return w.scaled(d, pick) }
	if pick/8%4 == 0 {
		if w.isInGrace() {
			return
		}
		for i, p := range w.given {
			to := w.phases[i].Policy()
			to.MaxAge, to.MaxAgeJitter, to.MaxAgeGrace = scaled(p.MaxAge), scaled(p.MaxAgeJitter), scaled(p.MaxAgeGrace)
			w.replaceBy(w.phases[i], to)
		}
		return
	}
	w.replacePhase(int(pick/32%uint64(len(w.phases))), pick)
}

// scaled returns one of a few multiples of d.
func (w *world) scaled(d time.Duration, pick uint64) time.Duration {
	const most = 200 // ticks: see held
	if d > 0 {
		d = min(max(d*[]time.Duration{1, 2, 4, 8, 16}[pick%5]/4, w.tick), most*w.tick)
	}
	return d
}

// replacePhase replaces the policy of a phase, but for the age; w.mu is held.
func (w *world) replacePhase(i int, pick uint64) {
	to, age := w.given[i], w.phases[i].Policy()
	to.MaxAge, to.MaxAgeJitter, to.MaxAgeGrace = age.MaxAge, age.MaxAgeJitter, age.MaxAgeGrace
	for _, d := range to.durations() {
		*d = w.scaled(*d, pick)
	}
	to.Heartbeat.Jitter = min(to.Heartbeat.Jitter, to.Heartbeat.Interval)
	w.replaceBy(w.phases[i], to)
}

// isInGrace reports whether there is a connection of which the ledger could not tell
// whether its owner is told again: one in its grace that is in a phase without a limit
// of age, and may enter one with another age; or one whose age was replaced in its
// grace, and may be so by what it was, before it has followed.
func (w *world) isInGrace() bool {
	return slices.ContainsFunc(w.slots, func(s *slot) bool {
		return s.life != nil && (s.life.ledger.drained && s.life.ledger.policy.MaxAge == 0 || s.life.ledger.again)
	})
}

// replaceBy replaces the policy of a phase, also in the ledgers; w.mu is held.
func (w *world) replaceBy(ph *Phase, p Policy) {
	if p == ph.Policy() {
		return
	}
	if ph == w.phases[0] && w.areUsed(w.capacity.now, p) {
		if err := ph.SetPolicy(p); err == nil {
			w.errorf("SetPolicy(%+v) beside %+v: no error", p, w.capacity.now)
		}
		return
	}
	by := w.now() + w.walkTime()
	if err := ph.SetPolicy(p); err != nil {
		w.errorf("at %v: Replace by %+v: %v", w.now(), p, err)
		return
	}
	w.replaced++
	w.follow(ph, by)
}

// follow has the ledgers follow to the policy of a phase that is in force now; w.mu is
// held.
func (w *world) follow(ph *Phase, by time.Duration) {
	for _, s := range w.slots {
		if l := s.life; l != nil && l.live() && l.phase == ph {
			l.moves()
			l.ledger.follow(w.told(ph), w.now(), by)
		}
	}
}

// durations returns the fields of p that may be longer or shorter without regard to the
// other phases.
func (p *Policy) durations() []*time.Duration {
	return []*time.Duration{
		&p.IdleTimeout, &p.ReadTimeout, &p.ReadTotal, &p.WriteTimeout, &p.PhaseTimeout,
		&p.Heartbeat.Interval, &p.Heartbeat.Timeout, &p.MinReadRate.Grace, &p.MinWriteRate.Grace,
	}
}

// follow has the limits be those of p, which are of the same kinds. What they count
// from stays. Those that are passed are so by the time that the walk is over.
func (l *ledger) follow(p Policy, now, by time.Duration) {
	if l.drained && (p.MaxAge != l.policy.MaxAge || p.MaxAgeJitter != l.policy.MaxAgeJitter) {
		l.drained, l.again, l.bornLate = false, true, max(0, l.drainedT-l.born-l.policy.MaxAge)
	}
	l.policy, l.replaced = p, now
	l.excused = max(l.excused, by)
	l.read.follow(readsOf(p), by)
	l.write.follow(p.MinWriteRate, by)
}

func (w *waits) follow(r Rate, by time.Duration) { w.was, w.rate, w.walks = w.rate, r, by }
