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
	if err := ph.SetPolicy(p); err != nil {
		w.errorf("at %v: SetPolicy(%+v): %v", w.now(), p, err)
		return
	}
	w.replaced++
	for _, s := range w.slots {
		if l := s.life; l != nil && l.live() && l.phase == ph {
			l.moves()
			l.ledger.follow(w.tells(p), w.now(), by)
		}
	}
}

// follow has the limits be those of p. What they count from stays, unless the policy before had no
// account of it. Those that have passed are due when the visit is over.
func (l *ledger) follow(p idle.Policy, now, by time.Duration) {
	was := l.policy
	l.policy, l.replaced, l.renewed = p, now, max(l.renewed, by)
	l.excused = max(l.excused, by)
	l.read.follow(readsOf(was), readsOf(p), now, by)
	l.write.follow(was.MinWriteRate, p.MinWriteRate, now, by)
	if b, had := p.Heartbeat, was.Heartbeat; b.Interval > 0 && (had.Interval == 0 || had.Passive != b.Passive) {
		l.beat, l.beatBy = now, by
		l.pings, l.stuck = nil, l.pinging
	}
}

// follow begins the account of waits if the policy before had none of this kind.
func (w *waits) follow(was, r idle.Rate, now, by time.Duration) {
	if was.BytesPerSecond > 0 && r.BytesPerSecond > 0 {
		w.bought, w.bytes = w.paid(was), 0
	}
	w.was, w.rate, w.renewed = was, r, by
	if r.Grace > 0 && (was.Grace == 0 || (was.BytesPerSecond == 0) != (r.BytesPerSecond == 0)) {
		w.count(now, by)
	}
}

// count begins the account now, or by the given time at the latest.
func (w *waits) count(now, by time.Duration) {
	w.owed, w.served, w.bytes, w.bought, w.spent, w.surely = now, 0, 0, 0, false, false
	w.anew, w.later = by, max(w.later, by-now)
}

// pays notes that n bytes have moved.
func (w *waits) pays(n int, now time.Duration) {
	price := func(r idle.Rate) time.Duration {
		return time.Duration(n) * time.Second / time.Duration(max(r.BytesPerSecond, 1))
	}
	switch is, was := price(w.rate), price(w.was); {
	case w.rate.BytesPerSecond == 0 || now > w.renewed:
		w.bytes += n
	case now <= w.anew: // they may not count
		w.later += is
	default: // at either price
		w.bought += min(is, was)
		w.later += max(is, was) - min(is, was)
	}
}
