package simulation

import (
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// waits is the account of a direction. Until waits are measured, up to three ticks of each pause count as waiting. How many
// isn't known to the ledger.
type waits struct {
	of    *ledger
	on    bool
	since time.Duration // when the wait began, or the last one ended
	from  time.Duration // since when the minimum rate counts
	owed  time.Duration // how much of the waits before isn't paid for; negative if bytes have paid in advance
	ticks time.Duration // the same if waits aren't measured, at most
	most  time.Duration // the same since waits are measured, if they may be, at most
	rough time.Duration // by how much less may be owed since then than owed says
	lax   time.Duration // so much sooner the minimum rate may be missed, because the credit is limited
	later time.Duration // so much later it may be
	paid  time.Duration // up to when the last minimum rate was paid for, if there is none now
}

// mostCredit is how long bytes may pay in advance.
const mostCredit = time.Minute

// enter begins a phase with the rate r.
func (w *waits) enter(was, r idle.Rate, now time.Duration) {
	w.lapses(was, r)
	if w.on || r.Grace > 0 {
		w.since = now
	}
	w.restart(r, now, 0)
}

// restart begins an account.
func (w *waits) restart(r idle.Rate, now, later time.Duration) {
	w.from, w.owed, w.lax, w.later = now, 0, 0, later
	if w.ticks, w.most, w.rough = 0, 0, 0; !w.of.measured {
		w.most, w.rough = -mostCredit, r.Grace/measuredAfter
		w.begins()
	}
}

// begins notes that a part of the pause before a wait counts. If the process stood still, the clock's copies were late, and a part
// of the wait before may not count.
func (w *waits) begins() {
	if w.on && !w.of.measured {
		w.ticks += w.of.lax()
		w.rough += w.of.lax() - 3*w.of.tick
	}
}

// follow begins an account if the policy before had none. What bytes have paid in advance before may
// count.
func (w *waits) follow(was, r idle.Rate, now time.Duration) {
	w.lapses(was, r)
	switch {
	case r.Grace > 0 && was.Grace == 0:
		w.restart(r, now, max(0, w.paid-now))
	case r.Grace > was.Grace && !w.of.measured:
		w.rough += (r.Grace - was.Grace) / measuredAfter
	}
}

// lapses notes what is paid when an account ends.
func (w *waits) lapses(was, r idle.Rate) {
	if was.Grace > 0 && r.Grace == 0 {
		w.paid = max(w.since, w.from) - w.owed + w.later + w.rough
	}
}

// settle adds the wait so far to what is owed.
func (w *waits) settle(now time.Duration) {
	if from := max(w.since, w.from); w.on && now > from {
		for _, sum := range []*time.Duration{&w.owed, &w.ticks, &w.most} {
			*sum += now - from
		}
		w.from = now
	}
}

// looksMissed is when the rate looks missed, so that waits are measured, at the earliest.
func (w *waits) looksMissed(r idle.Rate) time.Duration {
	if r.Grace == 0 || !w.on {
		return never
	}
	return max(w.since, w.from+r.Grace/measuredAfter-w.ticks)
}

// mayBeMeasured notes that waits may have been measured at any time from the given one to now.
func (w *waits) mayBeMeasured(from, now time.Duration) {
	if from <= now && w.on {
		w.most = max(w.most, min(w.ticks, now-from))
	} else if from <= now {
		w.most = max(w.most, min(w.ticks, 0))
	}
}

// pays notes that n bytes have moved.
func (w *waits) pays(r idle.Rate, n int, now time.Duration, g *ledger) {
	if r.BytesPerSecond == 0 {
		return
	}
	g.note(now)
	worth := time.Duration(float64(n) / float64(r.BytesPerSecond) * float64(time.Second))
	w.owed -= worth
	if w.owed <= -mostCredit { // at exactly that, what is owed may be more, by its rounding
		w.owed, w.lax = -mostCredit, g.lax()
	}
	w.ticks = max(w.ticks-worth, -mostCredit+g.lax())
	w.most = max(w.most-worth, -mostCredit)
}

// rebegin restarts the wait, but not the rate.
func (w *waits) rebegin(now time.Duration) {
	if w.on {
		w.of.note(now)
		w.since = now
	}
}

// forgive restarts the rate, but not the wait.
func (w *waits) forgive(now time.Duration) {
	w.of.note(now)
	w.owed, w.ticks, w.most, w.from = min(w.owed, 0), min(w.ticks, 0), min(w.most, 0), now
}

func (w *waits) await(now time.Duration) {
	if !w.on {
		w.of.note(now)
		w.on, w.since = true, now
		w.begins()
	}
}

func (w *waits) pause(now time.Duration) {
	if w.on {
		w.of.note(now)
		w.on, w.since = false, now
	}
}

// stale is when more has been waited than the grace, and what the bytes pay for. There must be a wait.
func (w *waits) stale(r idle.Rate) time.Duration { return max(w.since, w.from) + r.Grace - w.owed }

// soonest is when that is so of the waits that are measured, at the earliest.
func (w *waits) soonest(r idle.Rate) time.Duration {
	from := max(w.since, w.from)
	at, g := from+r.Grace-w.most, w.of
	if g.measured {
		return at
	}
	slow := min(g.slow, g.read.looksMissed(g.policy.MinReadRate), g.write.looksMissed(g.policy.MinWriteRate))
	return min(at, max(from+r.Grace-w.ticks, slow+r.Grace))
}
