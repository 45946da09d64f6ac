package simulation

import (
	"context"
	"slices"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// A call of a visit's function takes a moment, so that a pass makes one step of a visit. That is so only
// where no other goroutine waits for the end of the call: in a bubble, no time passes then.
const (
	visitTakes = time.Nanosecond
	mostVisits = 100 * visitTakes
)

// A simVisit is a Visit that is under way, and whom it has to visit.
type simVisit struct {
	began, by time.Duration // when it has to be over
	live      []*life       // since it began
	visited   map[*life]bool
	calling   bool // the function
	mayTake   bool // a moment
	over      bool
	abandon   context.CancelFunc
	done      chan struct{}
}

const mostVisiting = 3

// A simForecast is what a visit has said of a connection.
type simForecast struct {
	moves    int // life.moved then
	at, ends time.Duration
	by       idle.Reason
}

// moves notes that something happened to l that a forecast cannot know.
func (l *life) moves() {
	l.world.moved++
	l.moved, l.movedAt, l.free = l.world.moved, l.world.now(), never
}

// moveAll notes that of the connections of h, or of all.
func (w *world) moveAll(h *home) {
	for _, s := range w.slots {
		if s.life != nil && (h == nil || s.home == h) {
			s.life.moves()
		}
	}
}

// visitTime is how long it may take until all visits are over, and one that begins now; w.mu is held. A
// pass makes one step at least. There may be one for policies, two of a drain, and one of a capacity.
func (w *world) visitTime() time.Duration {
	steps := len(w.slots) + 3
	return time.Duration((len(w.visits)+5)*steps) * w.tick
}

// visitAll begins a visit. Some are abandoned.
func (w *world) visitAll(pick uint64) {
	w.mu.Lock()
	w.checkAll()
	if len(w.visits) < mostVisiting {
		w.beginVisit(pick)
	}
	w.mu.Unlock()
}

// beginVisit begins a visit; w.mu is held.
func (w *world) beginVisit(pick uint64) *simVisit {
	v := &simVisit{visited: map[*life]bool{}, began: w.now(), by: w.now() + w.visitTime(), done: make(chan struct{})}
	v.mayTake = pick%8 > 0 && len(w.homes) == 1 && w.homes[0].loop == nil && len(ownShards(w.tracker)) == 1
	for _, s := range w.slots {
		if l := s.life; l != nil && l.live() && l.conn.Live() {
			v.live = append(v.live, l)
		}
	}
	w.visits = append(w.visits, v)
	ctx, cancel := context.WithCancel(context.Background())
	if v.abandon = cancel; pick%8 == 0 {
		ctx, v.abandon = context.WithTimeout(ctx, time.Duration(pick/8%20)*w.tick)
	}
	go func() {
		defer close(v.done)
		defer v.abandon()
		err := w.tracker.Visit(ctx, func(i idle.Info) { w.visit(v, &i) })
		w.mu.Lock()
		defer w.mu.Unlock()
		w.calm, v.over = -1, true
		w.visits = slices.DeleteFunc(w.visits, func(one *simVisit) bool { return one == v })
		if err != nil {
			if ctx.Err() == nil && (err != idle.ErrClosed || !w.closing) {
				w.errorf("at %v: a visit that began at %v: %v", w.now(), v.began, err)
			}
			return
		}
		for _, l := range v.live {
			if !v.visited[l] && l.live() && l.conn.Live() && !l.slot.home.closing {
				w.errorf("at %v: live throughout a visit that began at %v, and not visited: %v", w.now(), v.began, l)
			}
		}
	}()
	return v
}

// visit is what is called with each connection.
func (w *world) visit(v *simVisit, i *idle.Info) {
	w.mu.Lock()
	w.calm = -1
	w.happened["visited"]++
	l, now := i.Owner.(*life), w.now()
	if v.over || v.calling {
		w.errorf("at %v: visited, but the visit is over (%v) or in another call: %v", now, v.over, l)
	}
	v.calling, v.visited[l] = true, true
	l.info, l.visitedAt = *i, now
	if l.live() && l.movedAt != now && !l.underWay() && !w.stalls {
		w.checkInfo(l, i)
	}
	if pick := w.chance("Info.End", l.slot.n) % 32; !w.quiet && l.live() {
		switch pick {
		case 0:
			l.endsByHand(i.End)
		case 1, 2:
			l.endsIfIdle(i)
		}
	}
	for _, where := range []string{"visit", "visit once more", "visit again"} {
		if l.conn.Live() && !l.underWay() {
			l.meddle(where, false)
		}
	}
	v.mayTake = v.mayTake && !w.quiet
	takes := v.mayTake && !w.mayBeDue() // else what is due would be put off
	w.mu.Unlock()
	if v.mayTake {
		w.stallAs(1 + l.slot.n)
	}
	if takes {
		time.Sleep(visitTakes)
	}
	w.mu.Lock()
	v.calling = false
	w.mu.Unlock()
	if w.chance("visit throws", l.slot.n)%64 == 0 {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.quiet {
			w.throw()
		}
	}
}

// awaitVisits waits until no visit is in a call. No time passes while a Close waits for that.
func (w *world) awaitVisits() {
	for {
		w.mu.Lock()
		calling := slices.ContainsFunc(w.visits, func(v *simVisit) bool { return v.calling })
		w.mu.Unlock()
		if !calling {
			return
		}
		time.Sleep(w.tick)
	}
}

// mayBeDue reports whether something may be due at this moment; w.mu is held.
func (w *world) mayBeDue() bool {
	return slices.ContainsFunc(w.slots, func(s *slot) bool {
		l := s.life
		return l != nil && l.live() && (l.mayBeTold() || slices.ContainsFunc(l.ledger.spans(), func(s span) bool { return w.now() >= s.lo }))
	})
}

// checkVisits looks for visits that should be over; w.mu is held.
func (w *world) checkVisits() {
	for _, v := range w.visits {
		switch now := w.now(); {
		case w.isBlocked() && now > v.by: // it may last forever
			v.abandon()
		case !w.isBlocked() && now > v.by+w.held(v.began)+w.blocked(v.began):
			w.errorf("at %v: a visit is not over that had to be at %v", now, v.by)
		}
	}
}

// lax is by how much stamps may be off, unless the process stood still.
func (w *world) lax() time.Duration {
	if w.wraps {
		return 4 * w.tick
	}
	return 3 * w.tick
}

// waitsToSend is how many bytes wait for the peer of l.
func (l *life) waitsToSend() int {
	if !l.ledger.write.on {
		return 0
	}
	return l.Unsent()
}

// checkInfo holds an Info against the ledger; w.mu is held. Nothing has happened to l at this moment.
func (w *world) checkInfo(l *life, i *idle.Info) {
	g, now, lax := l.ledger, w.now(), w.lax()
	if i.Label() != l.name || i.Owner != l || i.Phase != g.policy.Name {
		w.errorf("at %v: %+v is %v", now, *i, l)
	}
	if busy := g.policy.NoInterrupt || !g.read.on; i.Busy != busy && !l.isTold() {
		w.errorf("at %v: %+v is busy: %v: %v", now, *i, busy, l)
	}
	if n := i.Unsent(); n != l.waitsToSend() {
		w.errorf("at %v: of %+v, %d bytes are unsent, not %d: %v", now, *i, l.waitsToSend(), n, l)
	}
	longer := time.Duration(0)
	if l.probed {
		longer = lax
	}
	is := func(what string, d, since, since2 time.Duration) {
		if d < 0 || d < now-since2-lax || d > max(0, now-since)+longer {
			w.errorf("at %v: %s of %+v is %v to %v: %v", now, what, *i, now-since2, now-since, l)
		}
	}
	is("age", i.Age, l.trackedAt, l.trackedAt)
	is("time since use", i.Idle, g.lastUse(), g.lastUse())
	if now <= g.renewed || w.drain != nil && now <= w.drain.given { // it may have to follow yet, or have no turn
		return
	}
	l.forecast = &simForecast{l.moved, now, now + i.EndsIn, i.EndsBy}
	if i.EndsBy == 0 {
		l.forecast.ends = never
	}
}

// isTold reports whether OnDrain may have been running a moment ago; w.mu is held.
func (l *life) isTold() bool {
	_, ok := l.ledger.may(0, "tell", l.world.now())
	return ok || l.telling || l.mayBeTold() || l.toldAt > 0 && l.world.now()-l.toldAt <= l.world.tick
}

// isUnread reports whether only the kernel knows of the last input. The stamp that has may be
// a tick too early, see Shard.probe. It is put right when a limit seems to have passed.
func (l *life) isUnread() bool { return l.kernelIn > 0 && l.kernelIn >= l.ledger.in }

// checkForecast holds what was forecast of l against how it ends now; w.mu is held.
func (l *life) checkForecast(r idle.Reason, now time.Duration) {
	w, f := l.world, l.forecast
	if f == nil || f.moves != l.moved || w.stalls || f.ends < f.at || l.slot.home.blocked(f.at-stallTicks*w.tick) > 0 { // what is overdue was held up
		return
	}
	w.happened["foretold"]++
	p, later, other := l.ledger.policy, mostVisits, false
	if l.isUnread() || w.wraps && (p.MaxAgeGrace > 0 || w.drain != nil) { // a grace that begins in the tick that has no stamp of its own
		later += w.tick
	}
	if p.MaxAgeGrace > 0 && p.Heartbeat.Interval > 0 && !p.Heartbeat.Passive { // what comes in the same tick is done one after the other
		later += w.tick
		other = r == idle.ReasonMaxAge || r == idle.ReasonHeartbeat
	}
	if r == idle.ReasonDrain || f.by == idle.ReasonDrain { // of two that come within two ticks, it may be either
		later += 2 * w.tick
		other = other || f.ends-now <= 2*w.tick
	}
	other = other || l.ledger.together(r, f.by)
	if off := now - f.ends; f.by != r && !other || off < -mostVisits && !(other && off >= -2*w.tick) || off > later {
		w.errorf("at %v: by %v; the forecast of %v was %v by %v: %v", now, r, f.at, f.ends, f.by, l)
	}
}

// beStill visits all at the end of a world, when nothing happens any more but what the tracker does.
// Those that are forecast to end by themselves, and that are not kept, have to.
func (w *world) beStill() {
	if w.stalls {
		return
	}
	w.mu.Lock()
	v := w.beginVisit(1)
	w.mu.Unlock()
	<-v.done
	time.Sleep(still)
	w.mu.Lock()
	defer w.mu.Unlock()
	for l := range v.visited {
		if f := l.forecast; f == nil || f.at < v.began || f.moves != l.moved || f.ends > v.began+still-2*w.tick {
			continue
		} else if w.happened["stillEnded"]++; l.live() {
			w.errorf("at %v: the forecast of %v was an end at %v by %v: %v", w.now(), f.at, f.ends, f.by, l)
		}
	}
}

// still is for how long a world is, before it ends.
const still = time.Minute
