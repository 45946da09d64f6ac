package simulation

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// A simCensus is a census that is under way, and whom it has to count.
type simCensus struct {
	query idle.Query
	began int           // as world.moves
	at    time.Duration // when it began
	live  []*life       // since it began
	may   []*life       // live when it began, or since
	pick  uint64
}

// mostCensuses is how many are under way at a time.
const mostCensuses = 2

// A simForecast is what a page has said of a connection.
type simForecast struct {
	moves    int // life.moved then
	at, ends time.Duration
	by       idle.Reason
}

// moves notes that something happened to l that a forecast cannot know.
func (l *life) moves() {
	l.world.moves++
	l.moved = l.world.moves
}

// takeCensus begins a census, unless there are enough.
func (w *world) takeCensus(pick uint64) {
	w.mu.Lock()
	w.checkAll()
	if len(w.censuses) == mostCensuses {
		w.mu.Unlock()
		return
	}
	v := &simCensus{began: w.moves, at: w.now(), pick: pick, query: idle.Query{Sort: idle.Sort(pick % uint64(numSorts))}}
	if pick/8%4 == 0 {
		v.query.Phases = []string{"phase 0", "phase 3", "phase 5", "none"}
	}
	for _, s := range w.slots {
		if l := s.life; l != nil && l.live() {
			v.may, v.live = append(v.may, l), append(v.live, l)
		}
	}
	w.censuses = append(w.censuses, v)
	w.mu.Unlock()
	go func() {
		ctx, cancel := context.Background(), func() {}
		if v.pick/16%2 == 0 {
			ctx, cancel = context.WithTimeout(ctx, w.censusTime())
		}
		c, err := w.tracker.Census(ctx, v.query)
		cancel()
		w.mu.Lock()
		w.calm = -1
		w.censuses = slices.DeleteFunc(w.censuses, func(one *simCensus) bool { return one == v })
		if err != nil {
			late := errors.Is(err, context.DeadlineExceeded) && (w.stalls || w.isBlocked() || w.blocked(v.at) > 0)
			if !late && (err != idle.ErrClosed || !w.closing) {
				w.errorf("at %v: a census that began at %v: %v", w.now(), v.at, err)
			}
			w.mu.Unlock()
			return
		}
		w.counted++
		if !w.closing && !slices.ContainsFunc(w.homes, func(h *home) bool { return h.closing }) { // else some may be handed back at this moment
			w.checkCensus(v, c)
		}
		alone := !w.paging // else life.labelled could be of either
		w.paging = true
		w.mu.Unlock()
		if alone {
			w.turnPages(v, c)
			w.mu.Lock()
			w.paging = false
			w.mu.Unlock()
		}
	}()
}

// censusTime is how long a census may take, unless a loop is blocked.
func (w *world) censusTime() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.walkTime()
}

// checkCensus holds a census that is over against the ledger; w.mu is held.
func (w *world) checkCensus(v *simCensus, c *idle.Census) {
	v.live = slices.DeleteFunc(v.live, func(l *life) bool { return !l.live() || !l.conn.Live() }) // one may be ended at this moment
	if c.Live < len(v.live) || c.Live > len(v.may) {
		w.errorf("at %v: a census that began at %v has counted %d; it were %d to %d", w.now(), v.at, c.Live, len(v.live), len(v.may))
	}
	if c.Idle.Count() != uint64(c.Live) || c.Age.Count() != uint64(c.Live) || c.Ending(time.Hour) > c.Live {
		w.errorf("at %v: %d idle times and %d ages of %d, of which %d end", w.now(), c.Idle.Count(), c.Age.Count(), c.Live, c.Ending(time.Hour))
	}
	sum := 0
	for name, in := range c.Phases {
		sum += in.Live
		if !slices.ContainsFunc(w.phases, func(ph *idle.Phase) bool { return ph == in.Phase && ph.Policy().Name == name }) || in.Live < 1 {
			w.errorf("at %v: phase %q is %+v", w.now(), name, in)
		}
	}
	if sum != c.Live {
		w.errorf("at %v: %d of %d are in some phase", w.now(), sum, c.Live)
	}
	w.checkTimes(v, c)
	w.checkUnsent(v, c)
}

// isStill reports whether nothing has happened to l since the census began.
func (v *simCensus) isStill(l *life) bool { return l.moved <= v.began }

// checkTimes holds the histograms against the ledger, as far as sums go; w.mu is held.
func (w *world) checkTimes(v *simCensus, c *idle.Census) {
	var leastIdle, leastAge, mostIdle, mostAge time.Duration
	still := map[string]int{}
	for _, l := range v.live {
		if v.isStill(l) && !l.underWay() {
			g := l.ledger
			_, used := g.idleSince()
			leastIdle += max(0, v.at-used-w.lax())
			leastAge += max(0, v.at-g.agesTo-w.lax())
			still[g.policy.Name]++
		}
	}
	for name, n := range still {
		if c.Phases[name].Live < n {
			w.errorf("at %v: %d in %q; it were %d at least", w.now(), c.Phases[name].Live, name, n)
		}
	}
	counted := w.now() // other walks may have come first
	for _, l := range v.may {
		mostIdle += max(0, counted-l.trackedAt) // it may have been active since
		mostAge += max(0, counted-l.trackedAt) + w.lax()
	}
	mostIdle += time.Duration(len(v.may)) * w.lax()
	micro := time.Duration(len(v.may)) * time.Microsecond
	within := func(h *idle.Histogram, least, most time.Duration) bool {
		sum := time.Duration(h.SumMicros) * time.Microsecond
		return sum >= least-micro && sum <= most+micro
	}
	if !w.stalls && (!within(&c.Idle, leastIdle, mostIdle) || !within(&c.Age, leastAge, mostAge)) {
		w.errorf("at %v: idle for %v in all, and it was %v to %v; aged %v, and it was %v to %v", w.now(), c.Idle.SumMicros, leastIdle, mostIdle, c.Age.SumMicros, leastAge, mostAge)
	}
}

// checkUnsent holds how much waits for peers against the ledger; w.mu is held.
func (w *world) checkUnsent(v *simCensus, c *idle.Census) {
	least, most, with, mostWith := 0, 0, 0, 0
	for _, l := range v.may {
		n := l.Unsent()
		if still := l.live() && v.isStill(l); still && !l.ledger.write.on {
			continue
		} else if still && l.trackedAt < v.at && n > 0 {
			least += n
			with++
		}
		most += mostUnsent
		mostWith++
	}
	if c.Unsent < uint64(least) || c.Unsent > uint64(most) || c.WithUnsent < with || c.WithUnsent > mostWith {
		w.errorf("at %v: %d bytes are unsent on %d; it were %d on %d at least", w.now(), c.Unsent, c.WithUnsent, least, with)
	}
}

// mostUnsent is how many bytes wait for a peer at most.
const mostUnsent = 400

// lax is by how much stamps may be off, unless the process stood still.
func (w *world) lax() time.Duration {
	if w.wraps {
		return 4 * w.tick
	}
	return 3 * w.tick
}

// checkList holds the list of a census against the ledger, as its pages have it; w.mu is held.
func (w *world) checkList(v *simCensus, list []*life) {
	wanted := func(l *life) bool {
		return v.query.Sort != idle.Unlisted && (v.query.Phases == nil || slices.Contains(v.query.Phases, l.ledger.policy.Name))
	}
	listed := map[*life]bool{}
	var last *life
	for _, l := range list {
		if listed[l] && !w.stalls { // else one may have been tracked anew meanwhile
			w.errorf("at %v: listed twice: %v", w.now(), l)
		}
		listed[l] = true
		if !slices.Contains(v.live, l) || !l.live() || !l.conn.Live() || !v.isStill(l) || l.underWay() {
			continue
		}
		if !wanted(l) {
			w.errorf("at %v: listed for %+v: %v", w.now(), v.query, l)
		}
		if last != nil && w.isBefore(v.query.Sort, l, last) {
			w.errorf("at %v: listed for %+v in this order: %v, %v", w.now(), v.query, last, l)
		}
		last = l
	}
	for _, l := range v.live {
		if l.live() && l.conn.Live() && v.isStill(l) && wanted(l) && !listed[l] {
			w.errorf("at %v: not listed for %+v: %v", w.now(), v.query, l)
		}
	}
}

// isBefore reports whether l must be listed before other.
func (w *world) isBefore(by idle.Sort, l, other *life) bool {
	a, b, lax := l.ledger, other.ledger, w.lax()
	switch {
	case w.stalls:
		return false
	case by == idle.MostIdle:
		_, used := a.idleSince()
		before, _ := b.idleSince()
		return used+lax < before
	case by == idle.Oldest:
		return a.agesTo+lax < b.agesFrom
	case by == idle.MostUnsent:
		return l.waitsToSend() > other.waitsToSend()
	}
	return false
}

// waitsToSend is how many bytes wait for the peer of l.
func (l *life) waitsToSend() int {
	if !l.ledger.write.on {
		return 0
	}
	return l.Unsent()
}

// turnPages lists what a census has found, now and then ends one of them, and notes the
// forecasts.
func (w *world) turnPages(v *simCensus, c *idle.Census) {
	size, list := 1+int(v.pick/64%8), []*life(nil)
	for from := 0; from < c.Len()+size; from += size {
		w.mu.Lock()
		began := w.moves
		w.mu.Unlock()
		page, err := c.Page(context.Background(), from, size)
		w.mu.Lock()
		w.calm = -1
		switch {
		case err != nil && (err != idle.ErrClosed || !w.closing):
			w.errorf("at %v: %v", w.now(), err)
		case len(page) > max(0, min(size, c.Len()-from)):
			w.errorf("at %v: %d on the page from %d of %d", w.now(), len(page), from, c.Len())
		}
		for i := range page {
			l := lifeOf(page[i].Owner)
			list = append(list, l)
			if l.moved <= began && l.live() && !l.underWay() && !w.stalls {
				w.checkInfo(l, &page[i])
			}
			if w.chance("Info.End", l.slot.n)%16 == 0 && !w.quiet {
				page[i].End(byHand)
				if l.live() && l.byHand == 0 {
					l.byHand = w.now()
				}
			}
		}
		w.mu.Unlock()
		if err != nil {
			return
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closing && !slices.ContainsFunc(w.homes, func(h *home) bool { return h.closing }) {
		w.checkList(v, list)
	}
}

// checkInfo holds an Info against the ledger; w.mu is held. Nothing has happened to l since
// before it was described.
func (w *world) checkInfo(l *life, i *idle.Info) {
	g, at, lax := l.ledger, time.Duration(l.labelled.Load()), w.lax()
	if i.Label != l.name || i.Owner != l.owner || i.Phase != g.policy.Name {
		w.errorf("at %v: %+v is %v", at, *i, l)
	}
	if busy := g.policy.NoInterrupt || !g.read.on; i.Busy != busy && !l.isTold() {
		w.errorf("at %v: %+v is busy: %v: %v", at, *i, busy, l)
	}
	if i.Unsent != l.waitsToSend() {
		w.errorf("at %v: of %+v, %d bytes are unsent: %v", at, *i, l.waitsToSend(), l)
	}
	longer := time.Duration(0)
	if l.probed {
		longer = lax
	}
	is := func(what string, d, since, since2 time.Duration) {
		if d < 0 || d < at-since2-lax || d > max(0, at-since)+longer {
			w.errorf("at %v: %s of %+v is %v to %v: %v", at, what, *i, at-since2, at-since, l)
		}
	}
	is("age", i.Age, g.agesFrom, g.agesTo)
	is("time since input", i.IdleIn, g.usedIn.lo, g.usedIn.hi)
	is("time since output", i.IdleOut, max(g.usedOut.lo, g.idleKept), max(g.usedOut.hi, g.idleKept))
	if beat := g.policy.Heartbeat; beat.Passive || beat.Interval == 0 {
		if i.Misses != 0 {
			w.errorf("at %v: %+v has no pings: %v", at, *i, l)
		}
	} else if least, most := g.pingsBy(at-mostVisits), g.pingsBy(at+mostVisits); g.replaced == 0 && !g.stuck && (i.Misses < max(0, least-1) || i.Misses > max(0, most-1)) {
		w.errorf("at %v: %+v has %d to %d pings: %v", at, *i, least, most, l)
	}
	if g.replaced > 0 && at <= g.read.walks { // it may have to follow yet
		return
	}
	f := &simForecast{l.moved, at, at + i.EndsIn, i.EndsBy}
	if i.EndsBy == 0 {
		f.ends = never
	}
	l.forecast = f
}

// isTold reports whether OnDrain may have been running a moment ago; w.mu is held.
func (l *life) isTold() bool {
	if _, ok := l.ledger.may(0, "drain", l.world.now()); ok || l.telling || l.world.explains(l) {
		return true
	}
	return len(l.told) > 0 && l.world.real()-l.told[len(l.told)-1] <= l.world.tick
}

// isUnread reports whether only the kernel knows of the last input. The stamp that has may be
// a tick too early, see [Shard.probe]. It is put right when a limit seems to have passed.
func (l *life) isUnread() bool { return l.kernelIn > 0 && l.kernelIn >= l.ledger.in }

// checkForecast holds what was forecast of l against a limit that it has passed now; w.mu is
// held.
func (l *life) checkForecast(r idle.Reason, now time.Duration) {
	w, f := l.world, l.forecast
	if f == nil || f.moves != l.moved || w.stalls {
		return
	}
	w.foretold++
	p, later, other := l.ledger.policy, mostVisits, false
	if l.isUnread() || w.wraps && p.MaxAgeGrace > 0 { // a grace that begins in the tick that has no stamp of its own
		later += w.tick
	}
	if p.MaxAgeGrace > 0 && p.Heartbeat.Interval > 0 && !p.Heartbeat.Passive { // what comes in the same tick is done one after the other
		later += w.tick
		other = r == idle.ReasonMaxAge || r == idle.ReasonHeartbeat
	}
	other = other || l.ledger.together(r, f.by)
	if off := now - f.ends; f.by != r && !other || off < -mostVisits || off > later {
		w.errorf("at %v: by %v; the forecast of %v was %v by %v: %v", now, r, f.at, f.ends, f.by, l)
	}
}
