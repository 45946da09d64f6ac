package simulation

import (
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// steer sets a capacity, or replaces policies.
func (w *world) steer(what int, pick uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.checkAll()
	i := int(pick / 32 % uint64(len(w.phases)))
	switch what {
	case setCapacity:
		w.capacitate(pick)
	case replaceOne:
		w.replacePhase(i, pick)
	case replaceAll:
		for i := range w.phases {
			w.replacePhase(i, pick)
		}
	case swing: // between two policies, which may limit other things
		from, to := w.phases[i].Policy(), w.others[i]
		for range 1 + pick/8%3 {
			w.replaceBy(w.phases[i], to)
			if pick/64%2 == 0 {
				w.replaceBy(w.phases[i], from)
			}
		}
	}
}

// scaled returns one of a few multiples of d.
func (w *world) scaled(d time.Duration, pick uint64) time.Duration {
	const most = 200 // ticks: see held
	if d > 0 {
		d = min(max(d*[]time.Duration{1, 2, 4, 8, 16}[pick%5]/4, w.tick), most*w.tick)
	}
	return d
}

// replacePhase replaces the policy of a phase by the one that it had first, with some limits longer or
// shorter; w.mu is held.
func (w *world) replacePhase(i int, pick uint64) {
	to := w.given[i]
	for _, d := range durations(&to) {
		*d = w.scaled(*d, pick)
	}
	if pick/256%4 == 0 {
		to.MaxAge, to.MaxAgeJitter, to.MaxAgeGrace = w.scaled(to.MaxAge, pick), w.scaled(to.MaxAgeJitter, pick), w.scaled(to.MaxAgeGrace, pick)
	}
	to.Heartbeat.Jitter = min(to.Heartbeat.Jitter, to.Heartbeat.Interval)
	w.replaceBy(w.phases[i], to)
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
	by := w.now() + w.visitTime()
	var in []*life
	for _, s := range w.slots {
		if l := s.life; l != nil && l.live() && l.phase == ph {
			in = append(in, l)
		}
	}
	if err := ph.SetPolicy(p); err != nil {
		w.errorf("at %v: SetPolicy(%+v): %v", w.now(), p, err)
		return
	}
	w.happened["replaced"]++
	for _, l := range in {
		l.moves()
		l.ledger.follow(w.tells(p), w.now(), by)
		if l.conn.TimedOut() {
			l.torn = w.now()
		}
	}
}

// follow has the limits be those of p. What they count from stays, unless the policy before had no
// account of it. Those that have passed are due when the visit is over.
func (l *ledger) follow(p idle.Policy, now, by time.Duration) {
	l.note(now)
	was := l.policy
	l.policy, l.replaced, l.renewed = p, now, max(l.renewed, by)
	l.excused = max(l.excused, by)
	l.read.follow(was.MinReadRate, p.MinReadRate, now)
	l.write.follow(was.MinWriteRate, p.MinWriteRate, now)
	if p.ExplicitUse && !was.ExplicitUse {
		l.explicit = now
	}
	if b, had := p.Heartbeat, was.Heartbeat; b.Interval > 0 && (had.Interval == 0 || had.Passive != b.Passive) {
		l.beatsFrom(now)
	}
}
