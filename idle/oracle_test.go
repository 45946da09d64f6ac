package idle

import (
	"fmt"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// A ledger is a dumb account of one connection: what happened to it and when,
// to the nanosecond. From it the deadlines follow by the words of Policy alone;
// it knows no ticks, wheels or stamps, except for how late a timeout may be.
//
// All instants are durations since the simulation began.
type ledger struct {
	policy Policy
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
	drained   bool
	again     bool // drained is to be so once more
	drainedT  time.Duration
	bornLate  time.Duration // by which the core may take it for born later, as draining was late
	replaced  time.Duration // when the policy last was, in this phase

	// From when its age counts, see Conn.Age: from then on, and to then.
	agesFrom, agesTo time.Duration
}

// A use is when a direction was last used: at least, and at most, where the order of what
// happens within a moment decides.
type use struct {
	lo, hi  time.Duration
	before  time.Duration // lo before the last use
	noise   time.Duration // the last ping, answer or beat
	told    time.Duration // what only the kernel has reported, and what the core makes of it at least
	least   time.Duration
	expects expectation
	until   time.Duration // from here on nothing is expected
}

// An expectation says whether the next activity is a ping, or the answer to one.
type expectation uint8

const (
	isUse expectation = iota
	isNoise
	isEither
)

// moved notes an activity.
func (u *use) moved(now time.Duration) {
	e := u.expects
	switch {
	case now > u.until:
		e = isUse
	case now == u.until && e == isNoise:
		e = isEither
	}
	switch u.expects = isUse; e {
	case isNoise:
		u.beats(now)
	case isEither:
		u.beats(now)
		u.hi = now
	case isUse:
		u.lo, u.hi, u.before = now, now, u.lo
	}
}

// beats notes an activity that is no use. It may be the byte that the kernel has reported
// before. The core goes on with what it has made of that report, see [Shard.probe].
func (u *use) beats(now time.Duration) {
	if u.noise, u.expects = now, isUse; u.lo == u.told {
		u.lo = u.least
	}
}

// reset notes that all begins anew.
func (u *use) reset(now time.Duration) { *u = use{lo: now, hi: now, before: now} }

// found notes what the kernel has reported. It cannot be told from noise shortly before.
func (u *use) found(at, tick time.Duration) {
	if u.hi = max(u.hi, at); at > u.noise+4*tick || u.noise < u.lo {
		if u.lo < at {
			u.told, u.least = at, max(u.lo, at-tick-tick/clock.SlackShare)
		}
		u.lo = max(u.lo, at)
	}
}

// expect notes that a ping begins.
func (u *use) expect(now, tick time.Duration) {
	u.until = never
	switch {
	case now-u.hi > 2*tick && now > u.noise:
		u.expects = isNoise
	default:
		u.expects = isEither
		if u.hi == now { // it was taken for it
			u.lo = min(u.lo, u.before)
		}
	}
}

// doubt notes that the core may take the next activity for use.
func (u *use) doubt() {
	if u.expects == isNoise {
		u.expects = isEither
	}
}

// used is when the connection was last used.
func (l *ledger) used() (lo, hi time.Duration) {
	return max(l.usedIn.lo, l.usedOut.lo), max(l.usedIn.hi, l.usedOut.hi)
}

// idleSince is from when its idle limit counts.
func (l *ledger) idleSince() (lo, hi time.Duration) {
	lo, hi = l.used()
	return max(lo, l.idleKept), max(hi, l.idleKept)
}

// waits is the account of a direction since the phase began.
type waits struct {
	on     bool
	since  time.Duration
	owed   time.Duration // since when the rate counts
	served time.Duration // in waits that are over
	bytes  int
	ended  time.Duration // the last wait, unless one is on
	lax    time.Duration // more that the core cannot know

	// Whether a wait may have begun when all that the rate allows was used up, and
	// whether the last one surely has.
	rate          Rate
	spent, surely bool

	// Until the walk is over the core may go by the rate that was replaced.
	was   Rate
	walks time.Duration

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
	least, most := now-max(from, w.since-w.silent.least), now-max(from, w.since-w.silent.most)
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

func (w *waits) restart(now time.Duration, r Rate) {
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
func (w *waits) forgive(r Rate, now, last time.Duration) {
	lax := now - last
	if !w.on {
		lax = max(lax, now-w.ended)
	}
	ahead := w.ahead(r, now)
	*w = waits{on: w.on, since: w.since, owed: now, ended: w.ended, turns: w.turns + 1, lax: w.lax + lax, rate: w.rate, spent: w.spent, was: w.was, walks: w.walks, silent: w.silent, paused: w.paused}
	if ahead > 0 {
		w.served = -ahead
	}
}

// ahead is what the bytes so far pay for beyond now, negative if they do not pay
// for all of the time waited.
func (w *waits) ahead(r Rate, now time.Duration) time.Duration {
	ahead := w.paid(r) - w.served
	if w.on {
		ahead -= max(0, now-max(w.since, w.owed))
	}
	return ahead
}

// paid is what the bytes so far pay for, nothing if there is no rate.
func (w *waits) paid(r Rate) time.Duration {
	if r.BytesPerSecond == 0 {
		return 0
	}
	return time.Duration(float64(w.bytes) / float64(r.BytesPerSecond) * float64(time.Second))
}

func (w *waits) await(now, tick time.Duration) {
	if !w.on {
		used := w.served - w.paid(w.rate) - w.rate.Grace
		least, most := used, used
		if now <= w.walks {
			usedBefore := w.served - w.paid(w.was) - w.was.Grace
			least, most = min(used, usedBefore), max(used, usedBefore)
		}
		w.spent = w.spent || most+w.lax > 0
		w.surely = least-w.lax > 3*tick
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

// delivered notes that what was read is answered. No wait that is over ends the connection
// any more.
func (l *ledger) delivered() {
	for _, w := range []*waits{&l.read, &l.write} {
		w.spent, w.surely = false, false
	}
}

// stale is when more was waited than the grace, and what the bytes pay for.
func (w *waits) stale(r Rate) time.Duration {
	return max(w.since, w.owed) + r.Grace + w.paid(r) - w.served
}

func newLedger(p Policy, tick, now time.Duration) *ledger {
	l := &ledger{tick: tick, born: now, agesFrom: now, agesTo: now}
	l.read.on = true
	l.enter(p, now)
	return l
}

func (l *ledger) enter(p Policy, now time.Duration) {
	l.policy = p
	l.began, l.out, l.beat, l.excused = now, now, now, now
	l.averted, l.replaced = 0, 0
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
func readsOf(p Policy) Rate {
	if p.ReadTotal > 0 {
		return Rate{Grace: p.ReadTotal}
	}
	return p.MinReadRate
}

func (l *ledger) arrived(now time.Duration) {
	l.answered(now)
	l.usedIn.moved(now)
}

func (l *ledger) sent(now time.Duration) {
	l.out = now
	l.usedOut.moved(now)
}

func (l *ledger) beatsOut(now time.Duration) {
	l.out = now
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

// pingsBy is how many pings have stayed unanswered that began by an instant.
func (l *ledger) pingsBy(at time.Duration) (n int) {
	for _, ping := range l.pings {
		if ping <= at {
			n++
		}
	}
	return n
}

// kept begins anew the limit that r names, and no other.
func (l *ledger) kept(r Reason, now time.Duration) {
	l.excused, l.averted = now, now
	switch r {
	case ReasonIdle:
		// The core cannot tell it from something sent, by which a write that
		// waits is timed out later, and one that nobody told had ended seems
		// to have ended now.
		l.idleKept, l.writeKept = now, now
		l.usedOut.doubt()
		l.write.lax += now - l.out
	case ReasonRead:
		l.read.rebegin(now)
	case ReasonWrite:
		l.write.rebegin(now)
	case ReasonHeartbeat:
		l.beat = now
		l.pings, l.stuck = nil, l.pinging
	case ReasonPhase:
		l.began = now
	case ReasonMaxAge:
		l.born, l.drained, l.again, l.bornLate = now, false, false, 0
		l.agesFrom, l.agesTo = now, now
	case ReasonMinReadRate, ReasonReadTotal:
		l.read.forgive(l.policy.MinReadRate, now, l.in)
	case ReasonMinWriteRate:
		l.write.forgive(l.policy.MinWriteRate, now, l.out)
	}
}

// drains begins the grace. By then its age is MaxAge, whatever it was.
func (l *ledger) drains(now time.Duration) {
	l.drained, l.again, l.drainedT = true, false, now
	l.agesTo = max(l.agesTo, now-l.policy.MaxAge)
	l.agesFrom = max(l.agesFrom, now-l.policy.MaxAge-l.policy.MaxAgeJitter)
}

// late is by how much a timeout may be late that is the sum of the given limits: a
// tick, the slack by which expiry runs behind the clock, and what rounding each up
// to whole ticks adds.
func (l *ledger) late(limits ...time.Duration) time.Duration {
	late := l.tick + l.tick/clock.SlackShare
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
	reason Reason // 0 for what ends nothing: a ping, or draining
	lo, hi time.Duration
}

func (s span) String() string { return fmt.Sprintf("%s in [%v, %v]", s.what, s.lo, s.hi) }

// spans lists what is ahead, if nothing happens meanwhile.
func (l *ledger) spans() (all []span) {
	p := l.policy
	add := func(r Reason, what string, lo, hi, late time.Duration) {
		if r == 0 {
			late += l.tick // something else that ends nothing may come first
		}
		if l.averted > 0 && hi <= l.averted+late {
			late += 2 * l.tick // what passes together is checked one after the other
		}
		all = append(all, span{what, r, lo, max(hi, l.excused) + min(late, never-hi)})
	}
	exact := func(r Reason, since, limit time.Duration) {
		add(r, r.String(), since+limit, since+limit, l.late(limit))
	}

	if p.IdleTimeout > 0 {
		lo, hi := l.idleSince()
		add(ReasonIdle, "idle", lo+p.IdleTimeout, hi+p.IdleTimeout, l.late(p.IdleTimeout))
	}
	if p.ReadTimeout > 0 && l.read.on {
		add(ReasonRead, "read", max(l.in, l.read.since-l.read.silent.most)+p.ReadTimeout, max(l.in, l.read.since-l.read.silent.least)+p.ReadTimeout, l.late(p.ReadTimeout))
	}
	if p.PhaseTimeout > 0 {
		exact(ReasonPhase, l.began, p.PhaseTimeout)
	}
	if p.WriteTimeout > 0 && l.write.on {
		since := max(l.out, l.write.since-l.write.silent.most)
		latest := max(l.out, l.write.since-l.write.silent.least, l.writeKept)
		add(ReasonWrite, "write", since+p.WriteTimeout, latest+p.WriteTimeout, l.late(p.WriteTimeout))
	}
	// One tick more is for the fractions of a tick at which a wait began, and that
	// the last byte buys.
	rate := func(reason Reason, w waits, r Rate) {
		if r.Grace == 0 {
			return
		}
		more := l.tick + w.lax
		late := l.late(r.Grace)
		switch passed := w.served - w.paid(r) - r.Grace; {
		case w.on:
			at := w.stale(r)
			add(reason, reason.String(), at-w.lax, max(at, w.since)+more, late)
		case passed <= 0:
		case !l.read.spent && !l.write.spent: // the owner works on what it has read
		case w.surely && passed > 2*l.tick+w.lax:
			add(reason, reason.String(), w.ended-passed-w.lax, w.ended+more, late)
		default: // it may be too little to tell
			add(reason, reason.String(), w.ended-passed-w.lax, never, late)
		}
	}
	rate(ReasonMinReadRate, l.read, p.MinReadRate)
	rate(ReasonReadTotal, l.read, Rate{Grace: p.ReadTotal})
	rate(ReasonMinWriteRate, l.write, p.MinWriteRate)
	l.addAge(add)
	l.addBeat(add)
	return all
}

type adder = func(r Reason, what string, lo, hi, late time.Duration)

func (l *ledger) addAge(add adder) {
	p := l.policy
	if p.MaxAge == 0 {
		return
	}
	least, most := l.born+p.MaxAge, l.born+l.bornLate+p.MaxAge+p.MaxAgeJitter
	late := l.late(p.MaxAge, p.MaxAgeJitter)
	switch {
	case p.MaxAgeGrace == 0:
		add(ReasonMaxAge, ReasonMaxAge.String(), least, most, late)
	case !l.drained:
		add(0, "drain", least, most, late)
	default: // Drain itself may have come late, at the cost of the grace
		lo := max(least, l.drainedT-late-l.tick) + p.MaxAgeGrace
		add(ReasonMaxAge, ReasonMaxAge.String(), lo, l.drainedT+p.MaxAgeGrace, l.late(p.MaxAgeGrace))
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
		add(ReasonHeartbeat, "heartbeat", l.beat+limit, l.beat+limit, l.late(limit))
	case l.stuck:
		// While a ping blocks there is no other, but there are misses.
		lo := max(l.in, l.beat) + h.Interval - h.Jitter
		hi := max(lo+h.Jitter+l.late(h.Interval)+l.tick, l.excused) + misses*(h.Timeout+late) - late
		least := lo + misses*h.Timeout
		if l.replaced > 0 { // misses may have counted before
			least, lo = min(least, l.replaced), min(lo, l.replaced)
		}
		add(ReasonHeartbeat, "heartbeat", least, hi, late)
		add(0, "ping", lo, never, 0)
	case len(l.pings) == 0:
		at := max(l.in, l.beat) + h.Interval
		add(0, "ping", at-h.Jitter, at, l.late(h.Interval))
	default:
		// Each ping may be late, and the next counts from it.
		first, last := l.pings[0], l.pings[len(l.pings)-1]
		hi := max(first, l.excused) + misses*(h.Timeout+late) - late
		lo := first + misses*h.Timeout
		if l.replaced > 0 { // each miss took what was allowed then
			lo = min(lo, last+max(1, misses-time.Duration(len(l.pings))+1)*h.Timeout)
		}
		add(ReasonHeartbeat, "heartbeat", lo, hi, late)
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

// may reports whether something that ends the connection for r, or is called
// what, may happen now. If it may not, the span says why.
func (l *ledger) may(r Reason, what string, now time.Duration) (span, bool) {
	for _, s := range l.spans() {
		if s.reason == r && s.what == what {
			return s, now >= s.lo
		}
	}
	return span{what: "no such limit: " + what}, false
}
