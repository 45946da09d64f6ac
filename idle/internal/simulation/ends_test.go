package simulation

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// How a world learns of its ends.
const (
	byOnEnds = iota // Options.OnEnds, which blocks now and then
	byRecent        // RecentEnds, from the beginning
	notTold         // it asks only when all is over
	waysToTell
)

// simEnds is the ledger of ends.
type simEnds struct {
	how      int
	telling  bool       // OnEnds is running
	told     []idle.End // in their order
	expected map[string]*simEnd
	phases   map[string]map[idle.Reason]uint64 // how many the tracker has ended
}

// A simEnd is what an End has to say of a life that has ended.
type simEnd struct {
	life         *life
	reason       idle.Reason
	phase, cause string
	time         time.Time
	told         bool
	handed       bool // back by a Close, which may have waited for OnEnds after that

	leastAge, age   time.Duration
	leastIdle, idle time.Duration
	late            time.Duration // at most
}

// label is Options.Label. It is called with and without w.mu held.
func (w *world) label(owner any) string {
	return owner.(*life).name
}

// onEnds is Options.OnEnds.
func (w *world) onEnds(ends []idle.End) {
	w.mu.Lock()
	if w.ends.telling {
		w.errorf("at %v: two calls of OnEnds at once", w.now())
	}
	if len(ends) == 0 {
		w.errorf("at %v: OnEnds without an end", w.now())
	}
	w.ends.telling = true
	block := !w.quiet && w.chance("OnEnds", 0)%4 == 0
	w.mu.Unlock()
	if block {
		time.Sleep(w.tick*time.Duration(w.chance("telling", 0)%90) + 2109)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ends.telling = false
	w.ends.told = append(w.ends.told, ends...)
}

// hasEnded notes that l has ended now; w.mu is held.
func (l *life) hasEnded(reason idle.Reason, cause string, late time.Duration) {
	w, g, now := l.world, l.ledger, l.world.now()
	w.ends.expected[l.name] = &simEnd{
		life: l, reason: reason, phase: g.policy.Name, cause: cause,
		time: time.Now(), leastAge: now - l.trackedAt, age: now - l.trackedAt, idle: now - g.lastUse(), leastIdle: now - g.lastUse(), late: late,
	}
	if reason == 0 {
		return
	}
	if w.ends.phases[g.policy.Name] == nil {
		w.ends.phases[g.policy.Name] = map[idle.Reason]uint64{}
	}
	w.ends.phases[g.policy.Name][reason]++
}

// checkEnds holds what was told against the ledger, when all is over.
func (w *world) checkEnds() {
	n, recent := &w.ends, w.tracker.RecentEnds()
	slices.Reverse(recent)
	switch n.how {
	case byOnEnds:
		if last := n.told[max(0, len(n.told)-keptEnds):]; !slices.Equal(last, recent) {
			w.errorf("of %d ends that were told, the last are not the %d recent ones", len(n.told), len(recent))
		}
	case byRecent:
		n.told = recent
	case notTold:
		if len(recent) > 0 {
			w.errorf("%d ends were recorded, and nobody wanted to know", len(recent))
		}
		return
	}
	if lost := w.tracker.Stats().EndsLost; uint64(len(n.told))+lost != min(w.tracked, w.mostTold()) || lost > 0 {
		w.errorf("%d ends are told and %d lost; %d have ended", len(n.told), lost, w.tracked)
	}
	for _, e := range n.told {
		switch want := n.expected[e.Label]; {
		case want == nil:
			w.errorf("told, but it has not ended: %+v", e)
		case want.told:
			w.errorf("told twice: %+v", e)
		default:
			want.told = true
			w.checkEnd(want, e)
		}
	}
}

// mostTold is how many ends may be told.
func (w *world) mostTold() uint64 {
	if w.ends.how == byRecent {
		return keptEnds
	}
	return math.MaxUint64
}

// checkEnd holds an End against what is known. Stamps are at most two ticks older than what
// they stand for, unless the process stood still.
func (w *world) checkEnd(want *simEnd, e idle.End) {
	l := want.life
	if e.Reason != want.reason || e.Phase != want.phase || e.Cause != want.cause {
		w.errorf("told %+v, but it was %+v: %v", e, *want, l)
	}
	if waited := want.time.Sub(e.Time); want.handed && waited <= onEndTakes {
		want.time = e.Time
		want.leastAge, want.age, want.leastIdle, want.idle = want.leastAge-waited, want.age-waited, want.leastIdle-waited, want.idle-waited
	}
	lax := 3 * w.tick
	if w.wraps {
		lax += w.tick
	}
	if w.stalls {
		lax += w.held(l.trackedAt)
	} else if !e.Time.Equal(want.time) {
		w.errorf("told %+v, but it was at %v: %v", e, want.time, l)
	}
	if l.answeredAt >= w.closedAt {
		return // nobody advanced the clock any more when OnTimeout had it begin anew
	}
	longer := time.Duration(0) // no time is longer than it was, but for bytes of which only the kernel knew
	if w.stalls || l.probed {
		longer = lax
	}
	if e.Age < want.leastAge-lax || e.Age > want.age+longer || e.Age < 0 || e.Age%w.tick != 0 {
		w.errorf("told %+v, but its age was %v: %v", e, want.age, l)
	}
	if e.Idle < want.leastIdle-lax || e.Idle > want.idle+longer || e.Idle < 0 || e.Idle%w.tick != 0 {
		w.errorf("told %+v, but it was idle for %v to %v: %v", e, want.leastIdle, want.idle, l)
	}
	limit := isLimit(e.Reason)
	if e.Late < 0 || e.Late > want.late+lax || limit != (e.Late > 0) {
		w.errorf("told %+v, but it was late by %v at most: %v", e, want.late, l)
	}
}

// checkSeen holds what the counters say of ends against the ledger, when all is over.
func (w *world) checkSeen() {
	st := w.tracker.Stats()
	byReason, limits := map[idle.Reason]uint64{}, uint64(0)
	for name, of := range st.ByPhase {
		for r, n := range of {
			byReason[r] += n
			if n != w.ends.phases[name][r] {
				w.errorf("Stats say %d ended by %v in %q; it were %d", n, r, name, w.ends.phases[name][r])
			}
		}
		if len(of) != len(idle.Reasons()) {
			w.errorf("Stats have %d reasons in %q", len(of), name)
		}
	}
	for _, r := range idle.Reasons() {
		if byReason[r] != w.timedOut[r] {
			w.errorf("Stats say %d ended by %v in all phases; it were %d", byReason[r], r, w.timedOut[r])
		}
		if isLimit(r) {
			limits += w.timedOut[r]
		}
	}
	if st.Lifetime.Count() != w.tracked-w.handedBack || st.Lateness.Count() != limits {
		w.errorf("Stats have counted %d lifetimes and %d times how late; %d have ended, %d by limits",
			st.Lifetime.Count(), st.Lateness.Count(), w.tracked-w.handedBack, limits)
	}
	var age, late time.Duration
	for _, e := range w.ends.told {
		late += e.Late.Truncate(time.Microsecond)
		if !w.ends.expected[e.Label].handed {
			age += e.Age
		}
	}
	differs := func(h idle.Histogram, sum time.Duration) bool { return h.SumMicros != uint64(sum.Microseconds()) }
	if uint64(len(w.ends.told)) == w.tracked && (differs(st.Lifetime, age) || differs(st.Lateness, late)) {
		w.errorf("Stats have sums of %v and %v; it was told of %v and %v", st.Lifetime.SumMicros, st.Lateness.SumMicros, age, late)
	}
}

// nameOf is the label of the nth life of a world.
func nameOf(n int) string { return fmt.Sprint("life ", n) }
