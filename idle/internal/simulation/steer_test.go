package simulation

import (
	"slices"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// A visit takes a moment, and no more than the budget of a pass, so that a pass makes
// one step of a walk.
const (
	visitTakes = time.Nanosecond
	mostVisits = 100 * visitTakes
)

// A simWalk is a walk over all connections, and whom it has to visit. It is made by a Shed that
// chooses none.
type simWalk struct {
	op      *idle.Operation
	began   time.Duration
	by      time.Duration // when it has to be over
	live    []*life       // since it began
	visited map[*life]int
}

// steer begins a walk, or replaces a policy.
func (w *world) steer(what int, pick uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.checkAll()
	switch {
	case what == setCapacity:
		w.capacitate(pick)
	case what == replaceOne:
		w.replace(pick)
	case what == press:
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
	v := &simWalk{visited: map[*life]int{}, began: w.now(), by: w.now() + w.walkTime() + 3*stepsEvery}
	for _, s := range w.slots {
		if l := s.life; l != nil && l.live() {
			v.live = append(v.live, l)
		}
	}
	op, err := w.tracker.Shed(idle.Shed{Cause: "none", Filter: func(owner any) bool { w.visit(v, lifeOf(owner)); return false }})
	if err != nil {
		w.errorf("at %v: %v", w.now(), err)
		return
	}
	v.op = op
	w.walks = append(w.walks, v)
}

// visit is what a walk does with each connection.
func (w *world) visit(v *simWalk, l *life) {
	w.mu.Lock()
	w.calm = -1
	w.visits++
	if v.visited[l]++; v.visited[l] > 1 {
		w.errorf("at %v: visited twice: %v", w.now(), l)
	}
	if w.over.Load() || isDone(v.op) && !w.closing {
		w.errorf("at %v: visited, but the walk is over: %v", w.now(), l)
	}
	for _, where := range []string{"visit", "visit once more", "visit again"} {
		if l.conn.Live() && !l.underWay() {
			l.meddle(where, false)
		}
	}
	due := w.mayBeDue()
	w.mu.Unlock()
	w.stallAs(1 + l.slot.n)
	if !due { // else what is due would be put off
		time.Sleep(visitTakes)
	}
}

// mayBeDue reports whether something may be due at this moment; w.mu is held.
func (w *world) mayBeDue() bool {
	return slices.ContainsFunc(w.slots, func(s *slot) bool {
		l := s.life
		return l != nil && l.live() && slices.ContainsFunc(l.ledger.spans(), func(s span) bool { return w.now() >= s.lo })
	})
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
		if !isDone(v.op) {
			now := w.now()
			switch {
			case w.isBlocked() && now > v.by: // it may last for ever
				v.op.Cancel()
				return true
			case !w.isBlocked() && now > v.by+w.held(v.by)+w.blocked(v.began):
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
	for _, d := range durations(&to) {
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
		return s.life != nil && ((s.life.ledger.drained || s.life.ledger.unsure) && s.life.ledger.policy.MaxAge == 0 || s.life.ledger.again)
	})
}

// replaceBy replaces the policy of a phase, also in the ledgers; w.mu is held.
func (w *world) replaceBy(ph *idle.Phase, p idle.Policy) {
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
	w.replaces(ph, p)
	w.follow(ph, p, by)
}

// follow has the ledgers follow to the policy of a phase that is in force from now on; w.mu is
// held.
func (w *world) follow(ph *idle.Phase, p idle.Policy, by time.Duration) {
	for _, s := range w.slots {
		if l := s.life; l != nil && l.live() && l.phase == ph {
			l.moves()
			l.ledger.follow(w.tells(p), w.now(), by)
		}
	}
}

// follow has the limits be those of p, which are of the same kinds. What they count
// from stays. Those that are passed are so by the time that the walk is over.
func (l *ledger) follow(p idle.Policy, now, by time.Duration) {
	if (l.drained || l.unsure) && (p.MaxAge != l.policy.MaxAge || p.MaxAgeJitter != l.policy.MaxAgeJitter) {
		l.drained, l.unsure, l.again, l.bornLate = false, false, true, max(0, l.drainedT-l.born-l.policy.MaxAge)
	}
	l.policy, l.replaced = p, now
	l.excused = max(l.excused, by)
	l.read.follow(readsOf(p), by)
	l.write.follow(p.MinWriteRate, by)
}

func (w *waits) follow(r idle.Rate, by time.Duration) { w.was, w.rate, w.walks = w.rate, r, by }
