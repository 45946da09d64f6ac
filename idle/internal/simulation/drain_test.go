package simulation

import (
	"slices"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// A simDrain is a Drain: whom it has asked to finish, and whom it must.
type simDrain struct {
	*idle.Draining
	pace  idle.Drain
	began time.Duration
	given time.Duration           // when all that were live then have their turns, at the latest
	first []*life                 // that were live when it began
	came  []*life                 // that may have been counted as well
	since map[*life]time.Duration // it was idle then
	told  map[*life]time.Duration // when this drain has asked them to finish, for sure
	asked map[*life]time.Duration // when OnDrain was called first, by this drain or because of MaxAge
}

// isDone reports whether d is.
func (d *simDrain) isDone() bool {
	select {
	case <-d.Done():
		return true
	default:
		return false
	}
}

// forces reports whether even those that are busy are ended.
func (d *simDrain) forces(now time.Duration) bool {
	return d.pace.ForceAfter > 0 && now >= d.began+d.pace.ForceAfter
}

// real is the bubble's time since the world began.
func (w *world) real() time.Duration { return time.Since(w.start) }

// drainAll begins a drain. It replaces the one that is under way. Others cancel that.
func (w *world) drainAll(cancels bool, pick uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.checkAll()
	was := w.drain
	if cancels {
		if was != nil {
			w.cancelDrain()
		}
		return
	}
	ticks := func(n uint64) time.Duration { return time.Duration(n) * w.tick }
	d := &simDrain{began: w.now(), given: w.now() + w.visitTime(), since: map[*life]time.Duration{}, told: map[*life]time.Duration{}, asked: map[*life]time.Duration{}}
	if pick%4 > 0 {
		d.pace.Duration = ticks(1 + pick/8%160)
	}
	d.pace.CloseDelay = ticks(pick / 2048 % 3 * 7)
	if pick/8192%2 == 0 {
		d.pace.ForceAfter = max(ticks(10+pick/16384%200), d.pace.Duration, d.pace.CloseDelay)
	}
	for _, s := range w.slots {
		if l := s.life; l != nil && l.live() {
			d.first, d.since[l] = append(d.first, l), l.ledger.lastUse()
		}
	}
	var err error
	if d.Draining, err = w.tracker.Drain(d.pace); err != nil {
		w.errorf("at %v: %+v: %v", w.now(), d.pace, err)
		return
	}
	if was != nil && !was.isDone() {
		w.errorf("at %v: another Drain has taken its place, and it isn't done: %+v", w.now(), was.pace)
	}
	if w.drain = d; !d.isDone() && w.tracker.Draining() != d.Draining {
		w.errorf("at %v: %+v is not the drain that is under way", w.now(), d.pace)
	}
	w.happened["drains"]++
	w.moveAll(nil)
}

// cancelDrain cancels the drain that is under way; w.mu is held.
func (w *world) cancelDrain() {
	w.drain.Cancel()
	if !w.drain.isDone() || w.tracker.Draining() != nil {
		w.errorf("at %v: a drain is not over that was cancelled", w.now())
	}
	w.drain = nil
	w.moveAll(nil)
}

const byHand, ifIdle = "by hand", "if idle"

// endOne ends the connection in s by hand, from any goroutine.
func (w *world) endOne(s *slot, pick uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.checkAll()
	switch l := s.life; {
	case l == nil || !l.live():
	case pick%2 == 0 && l.info.Owner != nil: // it was visited some time ago
		l.endsIfIdle(&l.info)
	default:
		l.endsByHand(s.conn.End)
	}
}

// endsByHand ends l; w.mu is held.
func (l *life) endsByHand(end func(string)) {
	end(byHand)
	if l.byHand == 0 {
		l.byHand = l.world.now()
	}
	l.moves()
}

// endsIfIdle ends l if it isn't in use, nor was since a visit; w.mu is held.
func (l *life) endsIfIdle(i *idle.Info) {
	i.EndIfIdle(ifIdle)
	l.ifIdle = append(l.ifIdle, l.visitedAt)
	if l.ledger.lastUse() < l.visitedAt-l.world.lax() && l.isFree() && !l.probed {
		l.idleMoved, l.idleAt = l.moved, l.world.now()
	}
	l.forecast = nil
}

// mayBeTold reports whether a drain may ask l to finish; w.mu is held.
func (l *life) mayBeTold() bool {
	d := l.world.drain
	if d == nil {
		return false
	}
	_, told := d.told[l]
	return !told && (!d.isDone() || l.world.stalls)
}

// checkTold checks that a drain may ask l to finish at this moment; w.mu is held. Each shard has turns of
// its own.
func (l *life) checkTold(now time.Duration) {
	w, d := l.world, l.world.drain
	d.told[l] = now
	if w.stalls || !slices.Contains(d.first, l) {
		return
	}
	all, turns, lax := 0, 0, 2*w.tick
	for _, o := range slices.Concat(d.first, d.came) {
		if shardOf(o.conn) == shardOf(l.conn) {
			all++
			if d.told[o] > 0 && slices.Contains(d.first, o) {
				turns++
			}
		}
	}
	if most := float64(now-d.began+lax)*float64(all)/float64(max(d.pace.Duration, 1)) + 1; float64(turns) > most {
		w.errorf("at %v: %d of %d asked to finish since %v: %+v", now, turns, all, d.began, d.pace)
	}
	if now <= d.given || l.slot.home.blocked(d.began) > 0 || d.pace.Duration < time.Duration(2*all)*w.tick { // several may have their turns at the same tick
		return
	}
	counted := d.given
	longer := func(o *life) bool { // surely idle for longer, by more than a 64th and a tick, whenever they were counted
		return (d.began-d.since[o]-lax)*64/65 > counted-d.since[l]+lax
	}
	for _, o := range d.first {
		if o != l && o.live() && o.conn.Live() && shardOf(o.conn) == shardOf(l.conn) && longer(o) {
			w.happened["ordered"]++
			if o.ledger.lastUse() == d.since[o] && o.toldAt < d.began && !o.asked && o.answeredAt < d.began && !o.probed {
				w.errorf("at %v: asked to finish before one that is idle for longer: %v\n%v", now, l, o)
			}
		}
	}
}

// checkEnding checks that l may be ended at this moment, and not by a limit; w.mu is held.
func (l *life) checkEnding(err *idle.TimeoutError, now time.Duration) {
	w, g := l.world, l.ledger
	used := g.lastUse()
	lax := time.Duration(0)
	if l.probed { // see Shard.probe
		lax = w.tick
	}
	elapsed := l.answeredAt != now && err.Elapsed > now-used+lax // an answer of this instant may count later
	if err.Setting != "" || err.Limit != 0 || err.Phase != g.policy.Name || elapsed {
		w.errorf("at %v: ended with %+v: %v", now, err, l)
	}
	spares := true
	switch {
	case err.Reason == idle.ReasonShed && err.Cause == byHand && l.byHand > 0:
		spares = false
	case err.Reason == idle.ReasonShed && err.Cause == ifIdle:
		if len(l.ifIdle) == 0 || !l.probed && !slices.ContainsFunc(l.ifIdle, func(at time.Duration) bool { return used <= at+g.lax() }) {
			w.errorf("at %v: ended, although it was used since it was visited: %v, %v", now, l.ifIdle, l)
		}
	case err.Reason == idle.ReasonEvict:
		l.checkEviction(now)
	case err.Reason != idle.ReasonDrain:
		w.errorf("at %v: ended for no reason: %+v: %v", now, err, l)
	case w.drain == nil || w.drain.isDone() && !w.stalls && w.liveBefore(now):
		w.errorf("at %v: ended by a drain that is not under way: %v", now, l)
	default:
		d := w.drain
		spares = !d.forces(now)
		if at, asked := d.asked[l]; spares && (!asked || now-at < d.pace.CloseDelay) {
			w.errorf("at %v: ended by %+v, which began at %v, but told at %v: %v", now, d.pace, d.began, at, l)
		}
		if !l.asked {
			l.checkForecast(err.Reason, now)
		}
	}
	if !spares {
		return
	}
	switch {
	case g.policy.NoInterrupt || !g.read.on || g.write.on || l.telling || l.asked:
		w.errorf("at %v: ended by %v, but busy: %v", now, err, l)
	case l.probed && l.kernelIn > g.in || l.foundAt == now:
		w.errorf("at %v: ended by %v, but has unread input: %v", now, err, l)
	case l.probed && now < l.receives && err.Reason != idle.ReasonEvict:
		w.errorf("at %v: ended by %v, but its peer was receiving until %v: %v", now, err, l.receives, l)
	case l.probed && l.probedAt != now:
		w.errorf("at %v: ended by %v without being examined: %v", now, err, l)
	}
}

// isFree reports whether l may be ended at this moment by what spares those that are in use; w.mu is held.
func (l *life) isFree() bool {
	g := l.ledger
	return !g.policy.NoInterrupt && g.read.on && !g.write.on && !l.asked && !l.telling && !g.pinging && !l.slot.home.isBlocked() &&
		(!l.probed || l.kernelIn <= g.in && l.world.now() >= l.receives) && l.world.now() > g.renewed
}

// checkDrain looks for connections that should have been ended, or asked to finish; w.mu is held.
func (w *world) checkDrain() {
	now, d := w.now(), w.drain
	for _, s := range w.slots {
		l := s.life
		if l == nil || !l.live() || s.home.isBlocked() {
			continue
		}
		if l.free = min(l.free, now); !l.isFree() {
			l.free = never
		}
		wrong := func(what string, by time.Duration) {
			if now > by+l.held(by) {
				w.errorf("at %v: %s, as it had to be by %v: %v", now, what, by, l)
			}
		}
		if l.byHand > 0 {
			wrong("not ended by hand", l.byHand+4*w.tick)
		}
		if l.idleAt > 0 && l.idleMoved == l.moved {
			wrong("not ended, although idle", l.idleAt+4*w.tick)
		}
		if d == nil || d.isDone() {
			continue
		}
		ready := max(d.given, l.trackedAt) + 4*w.tick
		if d.pace.ForceAfter > 0 {
			wrong("not ended by the ForceAfter of a drain", max(ready, d.began+d.pace.ForceAfter+4*w.tick))
		}
		asked := l.asked || now-l.answeredAt < 4*w.tick && l.answeredAt > 0
		if l.toldAt < d.began && !asked {
			wrong("not asked to finish", max(ready, ready-d.given+d.began+d.pace.Duration, l.answeredAt+4*w.tick))
		}
		if l.toldAt >= d.began && l.free != never {
			told, sure := d.told[l]
			if !sure { // it may have been because of MaxAge, before its turn
				told = max(l.toldAt, d.given+d.pace.Duration)
			}
			wrong("not ended by a drain", max(told+d.pace.CloseDelay, l.free)+10*w.tick)
		}
	}
	if d == nil {
		return
	}
	if n := d.Left(); n > w.live() {
		w.errorf("at %v: %d are left, of %d", now, n, w.live())
	}
	switch live := w.live(); {
	case d.isDone():
		if slices.ContainsFunc(w.slots, func(s *slot) bool {
			return s.life != nil && s.life.live() && s.conn.Live() && s.life.trackedAt < w.drainSeen
		}) {
			w.errorf("at %v: a drain is done, but some are live throughout: %+v", now, d.pace)
		}
		w.drain = nil
		w.happened["finished"]++
		w.moveAll(nil)
	case live == 0 && !w.stalls:
		w.errorf("at %v: a drain is not done, but none is live: %+v", now, d.pace)
	case now-d.began > 3*time.Second: // others want to live
		w.cancelDrain()
	default:
		w.drainSeen = now
	}
}

// liveBefore reports whether a connection is live that came before the given time; w.mu is held. One that an
// OnEnd tracks as the last one ends finds the drain done.
func (w *world) liveBefore(at time.Duration) bool {
	return slices.ContainsFunc(w.slots, func(s *slot) bool { return s.life != nil && s.life.live() && s.life.trackedAt < at })
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
