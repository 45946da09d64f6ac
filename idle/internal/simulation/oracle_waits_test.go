package simulation

import (
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// waits is the account of a direction.
type waits struct {
	on    bool
	since time.Duration // when the wait began, or the last one ended
	from  time.Duration // since when the minimum rate counts
	owed  time.Duration // how much of the waits before isn't paid for; negative if bytes have paid in advance
	lax   time.Duration // so much sooner the minimum rate may be missed, because the credit is limited
	later time.Duration // so much later it may be
	paid  time.Duration // up to when the last minimum rate was paid for, if there is none now
}

// mostCredit is how long bytes may pay in advance.
const mostCredit = time.Minute

// enter begins a phase with the rate r.
func (w *waits) enter(was, r idle.Rate, now time.Duration) {
	w.lapses(was, r, now)
	if w.on || r.Grace > 0 {
		w.since = now
	}
	w.from, w.owed, w.lax, w.later = now, 0, 0, 0
}

// follow begins an account if the policy before had none. What bytes have paid in advance before may
// count.
func (w *waits) follow(was, r idle.Rate, now time.Duration) {
	w.lapses(was, r, now)
	if r.Grace > 0 && was.Grace == 0 {
		w.from, w.owed, w.lax, w.later = now, 0, 0, max(0, w.paid-now)
	}
}

// lapses notes what is paid when an account ends.
func (w *waits) lapses(was, r idle.Rate, now time.Duration) {
	if was.Grace > 0 && r.Grace == 0 {
		w.settle(now)
		w.paid = max(w.since, w.from) - w.owed + w.later
	}
}

// settle adds the wait so far to what is owed.
func (w *waits) settle(now time.Duration) {
	if from := max(w.since, w.from); w.on && now > from {
		w.owed += now - from
		w.from = now
	}
}

// pays notes that n bytes have moved.
func (w *waits) pays(r idle.Rate, n int, now time.Duration, g *ledger) {
	if r.BytesPerSecond == 0 {
		return
	}
	w.settle(now)
	w.owed -= time.Duration(float64(n) / float64(r.BytesPerSecond) * float64(time.Second))
	if w.owed <= -mostCredit { // at exactly that, what is owed may be more, by its rounding
		w.owed, w.lax = -mostCredit, g.lax()
	}
}

// rebegin restarts the wait, but not the rate.
func (w *waits) rebegin(now time.Duration) {
	if w.on {
		w.settle(now)
		w.since = now
	}
}

// forgive restarts the rate, but not the wait.
func (w *waits) forgive(now time.Duration) {
	w.settle(now)
	w.owed, w.from = min(w.owed, 0), now
}

func (w *waits) await(now time.Duration) {
	if !w.on {
		w.on, w.since = true, now
	}
}

func (w *waits) pause(now time.Duration) {
	if w.on {
		w.settle(now)
		w.on, w.since = false, now
	}
}

// stale is when more has been waited than the grace, and what the bytes pay for. There must be a wait.
func (w *waits) stale(r idle.Rate) time.Duration { return max(w.since, w.from) + r.Grace - w.owed }
