package simulation

import (
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// waits is the account of a direction since the phase began.
type waits struct {
	on     bool
	since  time.Duration
	owed   time.Duration // since when the rate counts
	served time.Duration // in waits that are over
	bytes  int
	bought time.Duration // by bytes under rates that were replaced
	ended  time.Duration // the last wait, unless one is on
	lax    time.Duration // more that the core cannot know

	// Whether a wait may have begun when all that the rate allows was used up, and
	// whether the last one surely has.
	rate          idle.Rate
	spent, surely bool

	// Until the visit is over the core may go by the rate that was replaced.
	was     idle.Rate
	renewed time.Duration

	anew  time.Duration // until then the account may not have begun
	later time.Duration // it may be so much later, because unread input was let off, or the account is new

	turns int // beginnings and ends of waits

	silent silence // since when the limit on a silence counts
	paused silence // that of the wait that was suspended
}

// A silence is how long a wait has gone on, with others that it resumes: it counts from before
// it began, by most at most and by least at least.
type silence struct {
	least, most time.Duration
	at          time.Duration // when it was suspended
	resumed     bool          // so it is measured exactly
}

// suspend is pause for a wait that may be resumed. The core does not know when in a tick it
// began, unless it has been resumed before.
func (w *waits) suspend(g *ledger, last, now time.Duration) {
	from := max(last, g.began)
	least, most := now-max(from, w.since-w.silent.least), now-max(last, w.since-w.silent.most) // a PhaseTimeout that is kept moves began, and not the wait
	if !w.silent.resumed || from >= w.since-w.silent.most-3*g.tick {
		least -= g.tick
		if g.wraps {
			least -= g.tick
		}
	}
	w.pause(now)
	w.paused = silence{least: max(0, least), most: most, at: now}
}

// resume is await for a wait that may have been suspended. It begins anew if something has
// happened since, or if it was suspended for longer than the limit.
func (w *waits) resume(g *ledger, last, limit, now time.Duration) {
	s := w.paused
	w.await(now, g.tick)
	lax := 4*g.tick + g.stall
	if anew := max(last, g.began); anew > s.at || s.most == 0 {
		s.least, s.most = 0, 0
	} else if anew > s.at-lax {
		s.least = 0
	}
	if limit > 0 && now-s.at > limit-lax || g.replaced > s.at {
		s.least = 0
	}
	if limit > 0 && g.stall == 0 && g.replaced <= s.at && now-s.at > limit+lax {
		s.most = 0
	}
	s.resumed = true
	w.silent, w.paused = s, silence{}
}

// least returns the least of those that are not 0, or 0.
func least(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

func (w *waits) restart(now time.Duration, r idle.Rate) {
	*w = waits{on: w.on, since: now, owed: now, ended: now, turns: 1, rate: r}
}

// rebegin has a wait begin anew, but for the rate.
func (w *waits) rebegin(now time.Duration) {
	if w.on {
		w.pause(now)
		w.on, w.since, w.silent = true, now, silence{}
	}
}

// forgive begins the rate anew, but not the wait: what is owed is let off, and
// what is paid in advance stays, about as it is. If the wait turns out to have
// ended with the last byte, the time from then till now is forgiven twice; if
// there is none, the core may take some of the advance for the pause.
func (w *waits) forgive(r idle.Rate, now, last time.Duration) {
	lax := now - last
	if !w.on {
		lax = max(lax, now-w.ended)
	}
	ahead := w.ahead(r, now)
	*w = waits{on: w.on, since: w.since, owed: now, ended: w.ended, turns: w.turns + 1, lax: w.lax + lax, rate: w.rate, spent: w.spent, was: w.was, renewed: w.renewed, later: w.later, anew: w.anew, silent: w.silent, paused: w.paused}
	if ahead > 0 {
		w.served = -ahead
	}
}

// ahead is what the bytes so far pay for beyond now, negative if they do not pay
// for all of the time waited.
func (w *waits) ahead(r idle.Rate, now time.Duration) time.Duration {
	ahead := w.paid(r) - w.served
	if w.on {
		ahead -= max(0, now-max(w.since, w.owed))
	}
	return ahead
}

// paid is what the bytes so far pay for, nothing if there is no rate.
func (w *waits) paid(r idle.Rate) time.Duration {
	if r.BytesPerSecond == 0 {
		return 0
	}
	return w.bought + time.Duration(float64(w.bytes)/float64(r.BytesPerSecond)*float64(time.Second))
}

func (w *waits) await(now, tick time.Duration) {
	if !w.on {
		used := w.served - w.paid(w.rate) - w.rate.Grace
		least, most := used, used
		if now <= w.renewed {
			usedBefore := w.served - w.paid(w.was) - w.was.Grace
			least, most = min(used, usedBefore), max(used, usedBefore)
		}
		w.spent = w.spent || most+w.lax > 0
		w.surely = least-w.lax > 4*tick // both ends, the Grace and the comparison are in whole ticks
		w.on, w.since, w.silent = true, now, silence{}
		w.turns++
	}
}

func (w *waits) pause(now time.Duration) {
	if w.on {
		w.on, w.ended = false, now
		w.served += max(0, now-max(w.since, w.owed))
		w.turns++
	}
}

// stale is when more was waited than the grace, and what the bytes pay for.
func (w *waits) stale(r idle.Rate) time.Duration {
	return max(w.since, w.owed) + r.Grace + w.paid(r) - w.served
}
