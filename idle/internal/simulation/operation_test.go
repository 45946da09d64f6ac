package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// A simOp is an operation, and whom it may end, must end and has ended.
//
// Its times are those of the bubble, which stand still in a jump: an operation does not
// go by the tracker's clock.
type simOp struct {
	op    *idle.Operation
	drain bool
	over  time.Duration // when it was cancelled
	pace  idle.Drain
	shed  idle.Shed

	began, pausedAt, pausedFor time.Duration
	paused, cancelled          bool
	stood                      time.Duration // when it began, as world.held has it
	mayTake                    time.Duration // longer than it ought to

	live  []*life // since it began, with no OnTimeout running
	most  uint64  // how many were tracked before it began, and were not live
	ended int
}

// real is the bubble's time since the world began.
func (w *world) real() time.Duration { return time.Since(w.start) }

// ran is for how long o has run at most, without pauses.
func (o *simOp) ran(now time.Duration) time.Duration {
	if o.paused {
		now = o.pausedAt
	}
	return now - o.began - o.pausedFor
}

// stops reports whether even those that are busy may be ended.
func (o *simOp) stops(now time.Duration) bool {
	return o.pace.ForceAfter > 0 && o.ran(now) >= o.pace.ForceAfter
}

// operate begins an operation, or has one pause, resume or end.
func (w *world) operate(what int, pick uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.checkAll()
	switch {
	case what == controlOp:
		w.control(pick)
	case what == drainAll && slices.ContainsFunc(w.ops, func(o *simOp) bool { return o.drain }):
		if _, err := w.tracker.Drain(idle.Drain{}); err == nil || !strings.Contains(err.Error(), "another") {
			w.errorf("at %v: two Drains at once: %v", w.now(), err)
		}
	case len(w.ops) < 3:
		w.beginOp(what == drainAll, pick)
	}
}

// beginOp begins a Drain or Shed; w.mu is held.
func (w *world) beginOp(drain bool, pick uint64) {
	o := &simOp{drain: drain, began: w.real(), stood: w.now()}
	ticks := func(n uint64) time.Duration { return time.Duration(n) * w.tick }
	switch pick % 4 {
	case 0:
		o.pace.Rate = float64(10 + pick/8%100)
	case 1, 2:
		o.pace.Duration = ticks(1 + pick/8%80)
	}
	o.pace.CloseDelay = ticks(pick / 1024 % 3 * 7)
	if pick/4096%2 == 0 {
		o.pace.ForceAfter = max(ticks(10+pick/8192%100), o.pace.Duration, o.pace.CloseDelay)
	}
	for _, s := range w.slots {
		if l := s.life; l != nil && l.live() && !l.asked {
			o.live = append(o.live, l)
		}
	}
	o.most = w.tracked - uint64(w.live())
	w.begun++
	if err := w.startOp(o, pick>>20); err != nil {
		w.errorf("at %v: %+v: %v", w.now(), o, err)
		return
	}
	w.ops = append(w.ops, o)
	o.mayTake = w.walkTime() + 3*stepsEvery + 6*w.tick
}

// startOp begins o; w.mu is held.
func (w *world) startOp(o *simOp, pick uint64) (err error) {
	if o.drain {
		o.op, err = w.tracker.Drain(o.pace)
		return err
	}
	o.shed = idle.Shed{Cause: fmt.Sprint("shed ", w.begun), Duration: o.pace.Duration, Rate: o.pace.Rate, CloseDelay: o.pace.CloseDelay, ForceAfter: o.pace.ForceAfter}
	switch s := &o.shed; pick % 8 {
	case 0:
		s.Max = 1 + int(pick/8%3)
	case 1:
		s.Fraction = 0.5
	case 2:
		s.Idle = time.Duration(1+pick/8%40) * w.tick
	case 3:
		s.Age = time.Duration(1+pick/8%60) * w.tick
	case 4:
		s.Phase = w.phases[pick/8%uint64(len(w.phases))]
	case 5, 6:
		s.Filter = func(owner any) bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			if isDone(o.op) {
				w.errorf("at %v: Pick, but the operation is over: %+v", w.now(), o)
			}
			return o.picks(lifeOf(owner))
		}
	}
	o.op, err = w.tracker.Shed(o.shed)
	return err
}

func (o *simOp) picks(l *life) bool { return (l.slot.n+int(o.began/stepsEvery))%2 == 0 }

// mayChoose reports whether o may choose l. What was true a moment ago may have been so
// when l had its turn.
func (o *simOp) mayChoose(l *life) bool {
	w, g, s := l.world, l.ledger, &o.shed
	moment := 3*w.tick + stepsEvery
	now := w.now()
	recently := func(at time.Duration) bool { return w.stalls || now-at <= moment }
	from, last := g.used()
	switch {
	case o.drain:
		return true
	case s.Filter != nil:
		return o.picks(l)
	case s.Phase != nil:
		return l.phase == s.Phase || recently(g.began)
	case s.Idle > 0:
		return now-from >= s.Idle || recently(last) || l.probed
	case s.Age > 0:
		return now-l.trackedAt >= s.Age
	}
	return true
}

// mustChoose reports whether o must choose l, which has been live throughout.
func (o *simOp) mustChoose(l *life) bool {
	s := &o.shed
	return o.drain || s.Filter != nil && o.picks(l) ||
		s.Filter == nil && s.Phase == nil && s.Max == 0 && s.Fraction == 0 && s.Idle == 0 && s.Age == 0
}

// control has an operation pause, resume or end; w.mu is held.
func (w *world) control(pick uint64) {
	if len(w.ops) == 0 {
		return
	}
	o := w.ops[pick%uint64(len(w.ops))]
	if isDone(o.op) || o.cancelled {
		return
	}
	switch now := w.real(); {
	case pick/8%8 == 0:
		w.cancel(o)
	case o.paused:
		o.op.Resume()
		o.pausedFor += now - o.pausedAt
		o.paused = false
	default:
		o.op.Pause()
		o.paused, o.pausedAt = true, now
	}
}

func (w *world) cancel(o *simOp) {
	o.op.Cancel()
	o.cancelled, o.over = true, w.real()
}

// endOne ends the connection in s by hand, from any goroutine.
func (w *world) endOne(s *slot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.checkAll()
	if l := s.life; l != nil {
		s.conn.End(byHand)
		if l.live() && l.byHand == 0 {
			l.byHand = w.now()
		}
	}
}

const byHand = "by hand"

// explains reports whether there is an operation that may tell l to finish; w.mu is held.
func (w *world) explains(l *life) bool {
	return slices.ContainsFunc(w.ops, func(o *simOp) bool {
		if o.paused && !w.stalls && w.real()-o.pausedAt > 3*w.tick {
			return false
		}
		return !isDone(o.op) && o.mayChoose(l)
	})
}

// checkOperation checks that an operation may end l at this moment; w.mu is held.
func (l *life) checkOperation(err *idle.TimeoutError, now time.Duration) {
	w, g := l.world, l.ledger
	used, _ := g.used()
	lax := time.Duration(0)
	if l.probed { // see probe, and settledAgo
		lax = w.tick
	}
	if err.Setting != "" || err.Limit != 0 || err.Phase != g.policy.Name || err.Elapsed > now-used+lax {
		w.errorf("at %v: ended with %+v: %v", now, err, l)
	}
	if err.Cause == byHand {
		if err.Reason != idle.ReasonShed || l.byHand == 0 {
			w.errorf("at %v: ended by hand, but nobody has: %+v: %v", now, err, l)
		}
		return
	}
	if err.Reason == idle.ReasonEvict {
		l.checkEviction(err, now)
		return
	}
	i := slices.IndexFunc(w.ops, func(o *simOp) bool {
		return o.drain && err.Reason == idle.ReasonDrain || !o.drain && err.Reason == idle.ReasonShed && o.shed.Cause == err.Cause
	})
	if i < 0 || isDone(w.ops[i].op) && !w.closing {
		w.errorf("at %v: ended by an operation that is not under way: %+v: %v", now, err, l)
		return
	}
	o, real := w.ops[i], w.real()
	o.ended++
	if o.cancelled && real > o.over && !w.stalls {
		w.errorf("at %v: ended by an operation that was cancelled: %+v: %v", now, o, l)
	}
	if !o.drain {
		if o.shed.Max > 0 && o.ended > o.shed.Max {
			w.errorf("at %v: ended one too many: %+v: %v", now, o, l)
		}
		if p := o.shed.Filter; p != nil && !o.picks(l) {
			w.errorf("at %v: ended, but not picked: %+v: %v", now, o, l)
		}
	}
	if o.stops(real) {
		return
	}
	if most := o.pace.Rate*o.ran(real).Seconds() + 1; o.pace.Rate > 0 && float64(o.ended) > most {
		w.errorf("at %v: ended %d, and not %v at most: %+v: %v", now, o.ended, most, o, l)
	}
	switch {
	case !slices.ContainsFunc(l.told, func(at time.Duration) bool { return at >= o.began && real-at >= o.pace.CloseDelay }):
		w.errorf("at %v: ended by %v, but told at %v; %+v: %v", now, err, l.told, o, l)
	case g.policy.NoInterrupt || !g.read.on || g.write.on:
		w.errorf("at %v: ended by %v, but busy; %+v: %v", now, err, o, l)
	case l.probed && now < l.receives:
		w.errorf("at %v: ended by %v, but its peer was receiving until %v: %v", now, err, l.receives, l)
	case l.probed && l.probedAt != now:
		w.errorf("at %v: ended by %v without being examined: %v", now, err, l)
	}
}

// checkOps holds operations against their ledger; w.mu is held.
func (w *world) checkOps() {
	now := w.real()
	for _, s := range w.slots {
		if l := s.life; l != nil && l.live() && l.byHand > 0 {
			if by := l.byHand + 4*w.tick; w.now() > by+l.held(by) && !s.home.isBlocked() {
				w.errorf("at %v: not ended, as it was to be by hand at %v: %v", w.now(), l.byHand, l)
			}
		}
	}
	for _, s := range w.slots {
		if l := s.life; l != nil && l.live() && l.rekeyed.must && !l.isRekeying() {
			w.errorf("at %v: not ended, though there were too many of its key: %+v: %v", w.now(), l.rekeyed, l)
		}
	}
	w.ops = slices.DeleteFunc(w.ops, func(o *simOp) bool {
		p := o.op.Progress()
		if uint64(p.Met) > w.tracked-o.most {
			w.errorf("at %v: met more than there were: %+v: %+v", w.now(), p, o)
		}
		if p.Met != p.Ended+p.Gone+p.Left || min(p.Ended, p.Gone, p.Told, p.InUse) < 0 || p.Left < p.Told+p.InUse || p.Expected < 0 {
			w.errorf("at %v: %+v: %+v", w.now(), p, o)
		}
		if isDone(o.op) {
			w.checkDone(o, p)
			return true
		}
		by := o.began + o.pausedFor + o.pace.ForceAfter
		if o.cancelled {
			by = o.over
		}
		by += o.mayTake + w.held(o.stood)
		switch {
		case o.pace.ForceAfter > 0 && (o.drain || w.isBlocked() && !w.askedRecently()) && !o.paused && !o.cancelled && now > by:
			w.checkForced(o, p, by)
		case o.paused && !o.cancelled || w.askedRecently():
		case o.cancelled || o.pace.ForceAfter > 0 && !o.drain && !w.isBlocked():
			if now > by+w.blocked(o.stood) {
				w.errorf("at %v: not over, as it had to be at %v: %+v: %+v", w.now(), by, o, p)
			}
		}
		if now-o.began > 3*time.Second && !o.cancelled { // others want to live
			w.cancel(o)
		}
		return false
	})
}

// checkForced looks whether an operation has ended all that it had to by now, but for those of
// a blocked loop. A Drain ends even those whose OnTimeout hangs; w.mu is held.
func (w *world) checkForced(o *simOp, p idle.Progress, by time.Duration) {
	for _, s := range w.slots {
		l := s.life
		if l == nil || !l.live() || s.home.isBlocked() || !o.drain && !(slices.Contains(o.live, l) && o.mustChoose(l)) || l.trackedAt > o.stood {
			continue
		}
		if w.real() > by+s.home.blocked(o.stood) {
			w.errorf("at %v: not stopped, as it had to be at %v: %+v: %+v: %v", w.now(), by, o, p, l)
		}
	}
}

// checkDone holds an operation that has finished against its ledger; w.mu is held.
func (w *world) checkDone(o *simOp, p idle.Progress) {
	if !p.Finished || p.Ended != o.ended {
		w.errorf("at %v: %d were ended, but %+v: %+v", w.now(), o.ended, p, o)
	}
	if o.cancelled {
		return
	}
	if p.Left != 0 {
		w.errorf("at %v: done, but %+v: %+v", w.now(), p, o)
	}
	w.finished++
	for _, l := range o.live {
		if l.live() && o.mustChoose(l) {
			w.errorf("at %v: live throughout %+v: %v", w.now(), o, l)
		}
	}
}

// askedRecently reports whether an OnTimeout runs, or has been a few ticks ago; w.mu is
// held.
func (w *world) askedRecently() bool {
	return w.answered > 0 && w.real()-w.answered < 4*w.tick+2*stepsEvery ||
		slices.ContainsFunc(w.slots, func(s *slot) bool { return s.life != nil && s.life.asked })
}

// resumeAll has all operations go on to their end, or until only those are left that are
// busy.
func (w *world) resumeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range w.ops {
		if o.paused && !o.cancelled {
			o.op.Resume()
			o.pausedFor += w.real() - o.pausedAt
			o.paused = false
		}
	}
}

// checkBusy looks whether operations that are not over wait for nobody but those that
// are busy, after a time in which all others had their turn; w.mu is held.
func (w *world) checkBusy() {
	w.ops = slices.DeleteFunc(w.ops, func(o *simOp) bool {
		if isDone(o.op) {
			w.checkDone(o, o.op.Progress())
			return true
		}
		return false
	})
	for _, o := range w.ops {
		live, busy := 0, 0
		for _, s := range w.slots {
			if l := s.life; l != nil && l.live() {
				live++
				if g := l.ledger; g.policy.NoInterrupt || !g.read.on || g.write.on {
					busy++
				}
			}
		}
		p := o.op.Progress()
		if p.Left != p.InUse || p.InUse > busy || o.drain && (p.InUse != live || busy != live) || p.Left == 0 || o.cancelled {
			w.errorf("an operation is not over: %+v; of %d live %d are busy: %+v", p, live, busy, o)
		}
	}
}

// live is how many are live; w.mu is held.
func (w *world) live() (n int) {
	for _, s := range w.slots {
		if s.life != nil && s.life.live() {
			n++
		}
	}
	return n
}
