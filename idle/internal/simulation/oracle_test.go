package simulation

import (
	"fmt"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// A ledger is a dumb account of one connection: what happened to it and when,
// to the nanosecond. From it the deadlines follow by the words of Policy alone;
// it knows no ticks, wheels or stamps, except for how late a timeout may be.
//
// All instants are durations since the simulation began.
type ledger struct {
	policy idle.Policy
	tick   time.Duration

	born     time.Duration
	began    time.Duration // the phase, or a keep of its limit
	excused  time.Duration // limits already passed at this time are due from here on
	averted  time.Duration // when the last of them was, in this phase; 0 if none
	in, out  time.Duration // the last byte
	used     time.Duration // the last Use, Enter, or keep of the idle limit
	explicit time.Duration // since when only Use counts, in this phase
	beat     time.Duration // the last beat, or when the heartbeat began or was kept
	read     waits
	write    waits
	pings    []time.Duration // unanswered
	pinging  bool            // a Ping is blocking
	stuck    bool            // one has been since the last byte
	stall    time.Duration   // how long the process may stand still
	wraps    bool            // one tick has no stamp of its own, and takes the next
	told     time.Duration   // when OnDrain was called last
	toldFor  idle.Policy     // the policy whose MaxAge has surely passed before that
	until    time.Duration   // when that OnDrain returned
	unread   time.Duration   // when unread input counted last
	unreadBy idle.Reason     // the limit that had passed then
	replaced time.Duration   // when the policy last was, in this phase
	renewed  time.Duration   // when the connection knows of that at the latest
	exact    func() bool     // reports whether waits are measured by the real clock
	measured bool            // the same, when it was asked last
	slow     time.Duration   // when a minimum rate first looked missed, at the earliest
}

func newLedger(p idle.Policy, tick, now time.Duration, exact func() bool) *ledger {
	l := &ledger{tick: tick, born: now, in: now, out: now, exact: exact, slow: never}
	l.read.of, l.write.of = l, l
	l.read.on = true
	l.enter(p, now)
	return l
}

func (l *ledger) enter(p idle.Policy, now time.Duration) {
	l.note(now)
	l.read.enter(l.policy.MinReadRate, p.MinReadRate, now)
	l.write.enter(l.policy.MinWriteRate, p.MinWriteRate, now)
	l.policy = p
	l.began, l.used, l.excused, l.averted, l.replaced, l.explicit = now, now, now, 0, 0, 0
	l.beatsFrom(now)
}

// note settles the accounts of both directions, and notes whether waits are measured.
func (l *ledger) note(now time.Duration) {
	l.read.settle(now)
	l.write.settle(now)
	if l.measured {
		return
	}
	if at := min(l.read.looksMissed(l.policy.MinReadRate), l.write.looksMissed(l.policy.MinWriteRate)); at <= now {
		l.slow = min(l.slow, at)
	}
	for _, w := range []*waits{&l.read, &l.write} {
		w.mayBeMeasured(l.slow, now)
		if l.exact() { // only now, if the process stood still
			w.rough = max(w.rough, w.owed)
		}
	}
	l.measured = l.exact()
}

// beatsFrom begins a heartbeat.
func (l *ledger) beatsFrom(now time.Duration) {
	l.beat = now
	l.answered(now)
}

func (l *ledger) arrived(at time.Duration) {
	l.in = at
	l.answered(at)
}

// answered notes that no ping that was sent by then waits for an answer.
func (l *ledger) answered(at time.Duration) {
	if len(l.pings) == 0 || at >= l.pings[0] {
		l.pings, l.stuck = nil, l.pinging
	}
}

// lastUse is when the connection was last used. If only Use counts since a SetPolicy, it was in use until then.
func (l *ledger) lastUse() time.Duration {
	if l.policy.ExplicitUse {
		return max(l.used, l.explicit)
	}
	return max(l.used, l.in, l.out)
}

// lax is by how much the tick of something may be off.
func (l *ledger) lax() time.Duration {
	lax := 3*l.tick + l.stall
	if l.wraps {
		lax += l.tick
	}
	return lax
}

// countsUnread reports whether unread input would count now: once until the server reads. In the ticks
// around that it isn't known.
func (l *ledger) countsUnread(now time.Duration) (counts, known bool) {
	read := max(l.in, l.began)
	counts = l.unread == 0 || read > l.unread
	known = l.unread == 0 || read > l.unread+l.lax() || read < l.unread-l.lax()
	if n := len(l.pings); n > 0 && now <= l.pings[n-1]+l.lax() {
		known = false // as it isn't whether it answers the ping
	}
	return counts, known
}

// findsUnread notes that input waits to be read, when the limit by seems to have passed.
func (l *ledger) findsUnread(by idle.Reason, now time.Duration) {
	if counts, _ := l.countsUnread(now); counts {
		l.unread, l.unreadBy = now, by
		l.answered(now)
	}
}

// heard is when input arrived last. Unread input counts as if it had a tick before it was found.
func (l *ledger) heard() (lo, hi time.Duration) {
	if l.unread == 0 {
		return l.in, l.in
	}
	return max(l.in, l.unread-l.tick), max(l.in, l.unread)
}

// putOff returns by how much unread input puts off the limit r, which passes at the given time: surely, and
// at most.
func (l *ledger) putOff(r idle.Reason, at time.Duration) (least, most time.Duration) {
	if l.unread == 0 || l.unread < at-l.lax() {
		return 0, 0
	}
	read := r == idle.ReasonMinReadRate && l.in >= l.unread // bytes have moved at since, maybe past the tick before which the input was found
	if most = unreadTicks * l.tick; l.unreadBy == r && l.unread >= at && !read {
		least = most
	}
	return least, most
}

// kept restarts the limit that r names, and no other.
func (l *ledger) kept(r idle.Reason, now time.Duration) {
	l.excused, l.averted = now, now
	switch r {
	case idle.ReasonIdle:
		l.used = now
	case idle.ReasonRead:
		l.read.rebegin(now)
	case idle.ReasonWrite:
		l.write.rebegin(now)
	case idle.ReasonHeartbeat:
		l.beatsFrom(now)
	case idle.ReasonPhase:
		l.began = now
	case idle.ReasonMinReadRate:
		l.read.forgive(now)
	case idle.ReasonMinWriteRate:
		l.write.forgive(now)
	}
}

// tells notes a call of OnDrain. If it is sure that MaxAge has asked for it, the grace counts from now.
func (l *ledger) tells(now time.Duration, sure bool) {
	l.until = now
	if l.told = now; sure {
		l.toldFor = l.policy
	} else {
		l.toldFor = idle.Policy{}
	}
}

// late is by how much a timeout may be late that is the sum of the given limits: a
// tick, the slack by which expiry runs behind the clock, and what rounding each up
// to whole ticks adds.
func (l *ledger) late(limits ...time.Duration) time.Duration {
	late := l.tick + slackOf(l.tick)
	if l.wraps {
		late += l.tick
	}
	for _, d := range limits {
		late += (l.tick - d%l.tick) % l.tick
	}
	return late
}

// A span is when something must happen: not before lo, and not after hi.
type span struct {
	what   string
	reason idle.Reason // 0 for what ends nothing: a ping, or asking to finish
	lo, hi time.Duration
}

func (s span) String() string { return fmt.Sprintf("%s in [%v, %v]", s.what, s.lo, s.hi) }

// spans lists what is ahead, if nothing happens meanwhile.
func (l *ledger) spans() (all []span) {
	p := l.policy
	add := func(r idle.Reason, what string, lo, hi, late time.Duration) {
		if r == 0 {
			late += l.tick // something else that ends nothing may come first
		}
		if l.averted > 0 && hi <= l.averted+late {
			late += 2 * l.tick // what passes together is checked one after the other
		}
		all = append(all, span{what, r, lo, max(hi, l.excused) + min(late, never-hi)})
	}
	inLo, inHi := l.heard()
	if p.IdleTimeout > 0 {
		lo, hi := max(l.lastUse(), inLo)+p.IdleTimeout, max(l.lastUse(), inHi)+p.IdleTimeout
		if p.ExplicitUse {
			at := max(l.used, l.explicit) + p.IdleTimeout
			least, most := l.putOff(idle.ReasonIdle, at)
			lo, hi = at+least, at+most
		}
		add(idle.ReasonIdle, "idle", lo, hi, l.late(p.IdleTimeout))
	}
	if p.ReadTimeout > 0 && l.read.on {
		add(idle.ReasonRead, "read", max(inLo, l.read.since)+p.ReadTimeout, max(inHi, l.read.since)+p.ReadTimeout, l.late(p.ReadTimeout))
	}
	if p.PhaseTimeout > 0 {
		at := l.began + p.PhaseTimeout
		least, most := l.putOff(idle.ReasonPhase, at)
		add(idle.ReasonPhase, "phase", at+least, at+most, l.late(p.PhaseTimeout))
	}
	if p.WriteTimeout > 0 && l.write.on {
		at := max(l.out, l.write.since) + p.WriteTimeout
		add(idle.ReasonWrite, "write", at, at, l.late(p.WriteTimeout))
	}
	if r := p.MinReadRate; r.Grace > 0 && l.read.on {
		at, soonest := l.read.stale(r), l.read.soonest(r)
		latest := max(at, l.read.since, l.in, l.anew(r, &l.read)) + l.read.later + l.read.rough
		least, _ := l.putOff(idle.ReasonMinReadRate, latest)
		_, most := l.putOff(idle.ReasonMinReadRate, soonest)
		add(idle.ReasonMinReadRate, "min_read_rate", soonest+least-l.read.lax, latest+most, l.late(r.Grace)+l.toMeasure())
		l.addMeasure(add, &l.read, at-r.Grace)
	}
	if r := p.MinWriteRate; r.Grace > 0 && l.write.on {
		at := l.write.stale(r)
		add(idle.ReasonMinWriteRate, "min_write_rate", l.write.soonest(r)-l.write.lax, max(at, l.write.since, l.anew(r, &l.write))+l.write.later+l.write.rough, l.late(r.Grace)+l.toMeasure())
		l.addMeasure(add, &l.write, at-r.Grace)
	}
	l.addAge(add)
	l.addBeat(add)
	return all
}

// anew is when r would be missed if waits were measured as soon as there is a wait and something else is over, and Grace began
// anew.
func (l *ledger) anew(r idle.Rate, w *waits) time.Duration {
	if l.measured {
		return 0
	}
	return max(l.excused, w.since) + r.Grace
}

// toMeasure is by how much more a rate may be late if waits have to be measured first. What ends nothing may come before that.
func (l *ledger) toMeasure() time.Duration {
	if l.measured {
		return 0
	}
	return l.late() + l.tick
}

// addMeasure adds when waits are measured at the latest. Nobody is told of that.
func (l *ledger) addMeasure(add adder, w *waits, at time.Duration) {
	if !l.measured && !l.exact() {
		add(0, "measure", never, max(at, w.since, l.in)+w.later+w.rough, l.late())
	}
}

type adder = func(r idle.Reason, what string, lo, hi, late time.Duration)

func (l *ledger) addAge(add adder) {
	p := l.policy
	if p.MaxAge == 0 {
		return
	}
	least, most := l.born+p.MaxAge, l.born+p.MaxAge+p.MaxAgeJitter
	late, grace := l.late(p.MaxAge, p.MaxAgeJitter), l.late(p.MaxAgeGrace)
	end := func(lo, hi, late time.Duration) { add(idle.ReasonMaxAge, "max_age", lo, hi, late) }
	switch {
	case p.MaxAgeGrace == 0:
		end(least, most, late)
	case l.told < least-3*l.tick && l.until < least-3*l.tick: // it isn't called again while it runs
		add(0, "tell", least, most, late)
	case l.told > most+late || l.toldFor.MaxAge >= p.MaxAge && l.toldFor.MaxAgeJitter >= p.MaxAgeJitter:
		end(l.told+p.MaxAgeGrace, l.told+p.MaxAgeGrace, grace)
	default: // MaxAge may have passed before that, or may not
		add(0, "tell", least, never, 0)
		end(max(least, l.told+p.MaxAgeGrace), max(most, l.excused)+late+2*l.tick+p.MaxAgeGrace, grace)
	}
}

func (l *ledger) addBeat(add adder) {
	h := l.policy.Heartbeat
	heard, latest := l.heard()
	since, latest := max(heard, l.beat), max(latest, l.beat)
	misses := time.Duration(max(h.Misses, 1))
	late := l.late(h.Timeout) + l.tick // a miss ends nobody, and another limit that is averted comes first
	switch {
	case h.Interval == 0:
	case h.Passive:
		at := l.beat + misses*h.Interval + h.Timeout
		least, most := l.putOff(idle.ReasonHeartbeat, at)
		add(idle.ReasonHeartbeat, "heartbeat", at+least, at+most, l.late(misses*h.Interval, h.Timeout)+l.tick)
	case l.stuck:
		// While a ping blocks there is no other, but there are misses.
		lo := since + h.Interval - h.Jitter
		hi := max(latest+h.Interval+l.late(h.Interval)+l.tick, l.excused) + misses*(h.Timeout+late) - late
		least := lo + misses*h.Timeout
		if l.replaced > 0 { // misses may have counted before, each after what was allowed then
			least, lo = max(since, heard+lo-since+misses*h.Timeout), since
		}
		add(idle.ReasonHeartbeat, "heartbeat", least, hi, late)
		add(0, "ping", lo, never, 0)
	case len(l.pings) == 0:
		add(0, "ping", since+h.Interval-h.Jitter, latest+h.Interval, l.late(h.Interval))
	default:
		// Each ping may be late, and the next counts from it.
		first, last := l.pings[0], l.pings[len(l.pings)-1]
		hi := max(first, l.excused) + misses*(h.Timeout+late) - late
		lo := first + misses*h.Timeout
		if l.replaced > 0 { // each miss took what was allowed then, but the end doesn't come before the Heartbeat has passed
			lo = min(lo, last+max(1, misses-time.Duration(len(l.pings))+1)*h.Timeout)
			lo = max(lo, heard+h.Interval-h.Jitter+misses*h.Timeout)
			hi = max(hi, latest+h.Interval+misses*h.Timeout+l.late(h.Interval, misses*h.Timeout))
		}
		add(idle.ReasonHeartbeat, "heartbeat", lo, hi, late)
		if len(l.pings) < int(misses) {
			add(0, "ping", last+h.Timeout, last+h.Timeout, l.late(h.Timeout))
		}
	}
}

// overdue returns what ought to have happened by now. stood tells for how long it
// may have been held up by stalls.
func (l *ledger) overdue(now time.Duration, stood func(span) time.Duration) (span, bool) {
	for _, s := range l.spans() {
		if s.hi < never && now > s.hi+stood(s) {
			return s, true
		}
	}
	return span{}, false
}

// together reports whether two limits may pass within two ticks of each other.
func (l *ledger) together(a, b idle.Reason) bool {
	at := map[idle.Reason]time.Duration{}
	for _, s := range l.spans() {
		at[s.reason] = s.lo
	}
	_, counts := at[b]
	return counts && at[a]-at[b] <= 2*l.tick && at[b]-at[a] <= 2*l.tick
}

// may reports whether something that ends the connection for r, or is called
// what, may happen now. If it may not, the span says why.
func (l *ledger) may(r idle.Reason, what string, now time.Duration) (span, bool) {
	for _, s := range l.spans() {
		if s.reason == r && s.what == what {
			return s, now >= s.lo
		}
	}
	return span{what: "no such limit: " + what}, false
}
