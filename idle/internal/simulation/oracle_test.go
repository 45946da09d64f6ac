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

	born      time.Duration
	began     time.Duration // the phase, or a Keep of its limit
	excused   time.Duration // limits already passed at this time are due from here on
	averted   time.Duration // when the last of them was, in this phase; 0 if none
	in, out   time.Duration // the last byte, or the beginning of the phase
	usedIn    use
	usedOut   use
	idleKept  time.Duration // when the idle limit was last begun anew
	writeKept time.Duration // how late that may make the write limit begin
	beat      time.Duration // the last beat, or the beginning of the phase
	read      waits
	write     waits
	pings     []time.Duration // unanswered
	pinging   bool            // a Ping is blocking
	stuck     bool            // one has been since the last byte
	stall     time.Duration   // how long the process may stand still
	wraps     bool            // one tick has no stamp of its own, and takes the next
	told      time.Duration   // when OnDrain was called last
	toldUntil time.Duration   // when it returned
	toldFor   idle.Policy     // the policy whose MaxAge has surely passed before that
	granted   grant
	beatBy    time.Duration // when a new Heartbeat counts at the latest
	beatWaits time.Duration // when unread input may have been a beat
	replaced  time.Duration // when the policy last was, in this phase
	renewed   time.Duration // when the connection knows of that at the latest
}

// A grant says whether unread input counts as activity once more.
type grant uint8

const (
	mayBeGranted grant = iota
	isGranted
	isUnclear
)

// delivered notes that what was read is answered. No wait to read that is over ends the
// connection any more.
func (l *ledger) delivered() { l.read.spent, l.read.surely = false, false }

func newLedger(p idle.Policy, tick, now time.Duration) *ledger {
	l := &ledger{tick: tick, born: now}
	l.read.on = true
	l.enter(p, now)
	return l
}

func (l *ledger) enter(p idle.Policy, now time.Duration) {
	l.policy = p
	l.began, l.out, l.beat, l.excused = now, now, now, now
	l.averted, l.replaced, l.beatBy, l.beatWaits, l.granted = 0, 0, 0, 0, mayBeGranted
	l.read.restart(now, readsOf(p))
	l.write.restart(now, p.MinWriteRate)
	l.answered(now)
	l.usedIn.reset(now)
	out := l.usedOut
	l.usedOut.reset(now)
	if now <= out.until && out.expects != isUse { // a ping that is running may still write
		l.usedOut.expects, l.usedOut.until = isEither, out.until
	}
}

// readsOf is what limits all reads under p.
func readsOf(p idle.Policy) idle.Rate {
	if p.ReadTotal > 0 {
		return idle.Rate{Grace: p.ReadTotal}
	}
	return p.MinReadRate
}

func (l *ledger) arrived(now time.Duration) {
	l.granted = mayBeGranted
	l.answered(now)
	l.usedIn.moved(now)
}

func (l *ledger) sent(now time.Duration) {
	l.goesOut(now)
	l.usedOut.moved(now)
}

// goesOut notes any output. It takes a grant back unless there was output in the same tick before.
func (l *ledger) goesOut(now time.Duration) {
	if l.out = now; l.granted == isGranted {
		l.granted = isUnclear
	}
}

// findsUnread notes that input waits to be read. That counts as input, but not twice in a row. The
// stamp of that may be a tick too early.
func (l *ledger) findsUnread(now time.Duration) {
	l.beatWaits = max(l.beatWaits, now)
	l.read.later = max(l.read.later, 4*l.tick)
	if l.granted != mayBeGranted {
		return
	}
	if l.granted = isGranted; now-l.in <= 2*l.tick {
		l.granted = isUnclear
	}
	l.answered(max(l.in, now-l.tick))
	l.usedIn.unread(now, l.tick)
	if r := readsOf(l.policy); r.Grace > 0 { // it may be let off
		l.read.later = max(l.read.later, now+r.Grace-l.read.stale(r))
	}
}

func (l *ledger) beatsOut(now time.Duration) {
	l.goesOut(now)
	l.usedOut.beats(now)
}

// fails notes that no ping was sent, so there is no answer to come.
func (l *ledger) fails() { l.usedIn.expects = isUse }

// begins notes that a ping begins, and ends that it is over.
func (l *ledger) begins(now time.Duration) {
	l.pings = append(l.pings, now)
	if !l.policy.Heartbeat.CountsAsUse {
		l.usedIn.expect(now, l.tick)
		l.usedOut.expect(now, l.tick)
		if now-l.idleKept <= 2*l.tick {
			l.usedOut.doubt()
		}
	}
}

func (l *ledger) ends(now time.Duration) { l.usedOut.until = min(l.usedOut.until, now) }

// answered notes that something has arrived.
func (l *ledger) answered(now time.Duration) {
	l.in = now
	l.pings, l.stuck = nil, l.pinging
}

// kept begins anew the limit that r names, and no other.
func (l *ledger) kept(r idle.Reason, now time.Duration) {
	l.excused, l.averted, l.granted = now, now, mayBeGranted
	switch r {
	case idle.ReasonIdle:
		// The core cannot tell it from something sent, by which a write that
		// waits is timed out later, and one that nobody told had ended seems
		// to have ended now.
		l.idleKept, l.writeKept = now, now
		l.usedOut.doubt()
		l.write.lax += now - l.out
	case idle.ReasonRead:
		l.read.rebegin(now)
	case idle.ReasonWrite:
		l.write.rebegin(now)
	case idle.ReasonHeartbeat:
		l.beat = now
		l.pings, l.stuck = nil, l.pinging
	case idle.ReasonPhase:
		l.began = now
	case idle.ReasonMinReadRate, idle.ReasonReadTotal:
		l.read.forgive(l.policy.MinReadRate, now, l.in)
	case idle.ReasonMinWriteRate:
		l.write.forgive(l.policy.MinWriteRate, now, l.out)
	}
}

// tells notes a call of OnDrain. If it is sure that MaxAge has asked for it, the grace counts from now.
func (l *ledger) tells(now time.Duration, sure bool) {
	l.toldUntil = now
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
	exact := func(r idle.Reason, since, limit time.Duration) {
		add(r, r.String(), since+limit, since+limit, l.late(limit))
	}

	if p.IdleTimeout > 0 {
		lo, hi := l.idleSince()
		add(idle.ReasonIdle, "idle", lo+p.IdleTimeout, hi+p.IdleTimeout, l.late(p.IdleTimeout))
	}
	if p.ReadTimeout > 0 && l.read.on {
		add(idle.ReasonRead, "read", max(l.in, l.read.since-l.read.silent.most)+p.ReadTimeout, max(l.in, l.read.since-l.read.silent.least)+p.ReadTimeout, l.late(p.ReadTimeout))
	}
	if p.PhaseTimeout > 0 {
		exact(idle.ReasonPhase, l.began, p.PhaseTimeout)
	}
	if p.WriteTimeout > 0 && l.write.on {
		since := max(l.out, l.write.since-l.write.silent.most)
		latest := max(l.out, l.write.since-l.write.silent.least, l.writeKept)
		add(idle.ReasonWrite, "write", since+p.WriteTimeout, latest+p.WriteTimeout, l.late(p.WriteTimeout))
	}
	// One tick more is for the fractions of a tick at which a wait began, and that
	// the last byte buys.
	rate := func(reason idle.Reason, w waits, r idle.Rate) {
		if r.Grace == 0 {
			return
		}
		more := l.tick + w.lax
		late := l.late(r.Grace)
		switch passed := w.served - w.paid(r) - r.Grace; {
		case w.on:
			at := w.stale(r)
			add(reason, reason.String(), at-w.lax, max(at, w.since)+more+w.later, late)
		case passed <= 0:
		case !w.spent: // the owner works on what it has read
		case w.surely && passed > 2*l.tick+w.lax && w.later == 0:
			add(reason, reason.String(), w.ended-passed-w.lax, w.ended+more, late)
		default: // it may be too little to tell
			add(reason, reason.String(), w.ended-passed-w.lax, never, late)
		}
	}
	rate(idle.ReasonMinReadRate, l.read, p.MinReadRate)
	rate(idle.ReasonReadTotal, l.read, idle.Rate{Grace: p.ReadTotal})
	rate(idle.ReasonMinWriteRate, l.write, p.MinWriteRate)
	l.addAge(add)
	l.addBeat(add)
	return all
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
	case l.told < least-3*l.tick && l.toldUntil < least-3*l.tick: // it isn't called again while it runs
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
	misses := time.Duration(max(h.Misses, 1))
	late := l.late(h.Timeout) + l.tick // a miss ends nobody, and another limit that is averted comes first
	switch {
	case h.Interval == 0:
	case h.Passive:
		limit := misses*h.Interval + h.Timeout
		hi := max(l.beat, l.beatBy) + limit
		if l.beatWaits > 0 {
			hi = max(hi, l.beatWaits+beatTicks*l.tick)
		}
		add(idle.ReasonHeartbeat, "heartbeat", l.beat+limit, hi, l.late(limit)+l.tick)
	case l.stuck:
		// While a ping blocks there is no other, but there are misses.
		since := max(l.in, l.beat)
		lo := since + h.Interval - h.Jitter
		hi := max(lo+h.Jitter+l.late(h.Interval)+l.tick, l.excused) + misses*(h.Timeout+late) - late
		least := lo + misses*h.Timeout
		if l.replaced > 0 { // misses may have counted before, each after what was allowed then
			least, lo = since, since
		}
		add(idle.ReasonHeartbeat, "heartbeat", least, hi, late)
		add(0, "ping", lo, never, 0)
	case len(l.pings) == 0:
		at := max(l.in, l.beat) + h.Interval
		add(0, "ping", at-h.Jitter, max(at, l.beatBy+h.Interval), l.late(h.Interval))
	default:
		// Each ping may be late, and the next counts from it.
		first, last := l.pings[0], l.pings[len(l.pings)-1]
		hi := max(first, l.excused) + misses*(h.Timeout+late) - late
		lo := first + misses*h.Timeout
		if l.replaced > 0 { // each miss took what was allowed then
			lo = min(lo, last+max(1, misses-time.Duration(len(l.pings))+1)*h.Timeout)
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
