package idle

import (
	"math/bits"
	"strconv"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// A reason is what errors and statistics know about a [Reason]. When a limit passes is in limits.next, what restarts it in
// Conn.begin and Conn.keep.
type reason struct {
	name    string                        // for metrics
	setting string                        // the field of Policy; empty if no limit has passed
	allowed func(p *Policy) time.Duration // the limit as configured, or 0 if it's off
}

// table has a row for each reason. If two limits pass in the same tick, the one that limits.next computes first
// wins. It goes by the order of the rows.
var table = [numReasons]reason{
	{name: "none"},
	ReasonIdle:         {"idle", "IdleTimeout", func(p *Policy) time.Duration { return p.IdleTimeout }},
	ReasonRead:         {"read", "ReadTimeout", func(p *Policy) time.Duration { return p.ReadTimeout }},
	ReasonWrite:        {"write", "WriteTimeout", func(p *Policy) time.Duration { return p.WriteTimeout }},
	ReasonMaxAge:       {"max_age", "MaxAge", func(p *Policy) time.Duration { return p.MaxAge }},
	ReasonHeartbeat:    {"heartbeat", "Heartbeat", func(p *Policy) time.Duration { return p.Heartbeat.limit() }},
	ReasonMinReadRate:  {"min_read_rate", "MinReadRate", func(p *Policy) time.Duration { return p.MinReadRate.Grace }},
	ReasonMinWriteRate: {"min_write_rate", "MinWriteRate", func(p *Policy) time.Duration { return p.MinWriteRate.Grace }},
	ReasonPhase:        {"phase", "PhaseTimeout", func(p *Policy) time.Duration { return p.PhaseTimeout }},
	ReasonDrain:        {name: "drain"},
	ReasonShed:         {name: "shed"},
	ReasonEvict:        {name: "evict"},
}

// setting returns the field of [Policy] that sets the limit, or "" for a reason that is no limit.
func (r Reason) setting() string {
	if r < numReasons {
		return table[r].setting
	}
	return ""
}

// String returns the reason's name in snake_case, as metrics need it: "idle",
// "read", "write", "max_age", "heartbeat", "min_read_rate", "min_write_rate" or
// "phase" for limits, and "drain", "shed" or "evict" for the others. It returns
// "none" for the zero Reason.
func (r Reason) String() string {
	if r < numReasons {
		return table[r].name
	}
	return "reason " + strconv.Itoa(int(r))
}

// limits are a policy in ticks. They don't change.
//
// A limit that an earlier policy of the phase has not set had no account then, or another one. So it counts
// from the time at which these limits came into force (the fields from).
type limits struct {
	policy Policy
	ended  *reasonCount // of all policies of that name

	idle, phase     int64 // 0 if off; likewise below
	maxAge, jitter  int64
	grace           int64
	beats           int64 // until a silent connection ends by its heartbeat
	interval, pong  int64 // of an active one; interval is 0 for a passive one
	pingJitter      int64
	misses          int
	in, out         direction
	used, heartbeat int64 // the tick from which explicit use, and the heartbeat, count at the earliest

	soonest uint32 // the first deadline is this many ticks after the start of the phase, or later; MaxAge and waits aside
	first   uint32 // the same for a new connection, with MaxAge and waits
}

// A direction is the part of limits that concerns one flow.
type direction struct {
	silence int64  // ReadTimeout or WriteTimeout in ticks
	rate    int    // bytes per second; 0 without a minimum rate
	grace   int64  // ns
	from    int64  // ns
	soonest uint32 // the first deadline is this many ticks after the start of a wait, or later; the rate aside
	tick    int64  // ns
}

// mostCredit is how long bytes can pay for in advance. Without a bound, a peer that has moved a
// megabyte could be silent for an hour.
const mostCredit = time.Minute

// worth returns how long n bytes pay for, in ns. It is rounded up, in favour of the sender.
func (d *direction) worth(n int) int64 {
	high, low := bits.Mul64(uint64(max(n, 0)), uint64(time.Second))
	if rate := uint64(d.rate); high < rate {
		ns, rest := bits.Div64(high, low, rate)
		if rest > 0 {
			ns++
		}
		return int64(min(ns, uint64(mostCredit)))
	}
	return int64(mostCredit)
}

// due returns the tick at which the minimum rate is missed, if waits are paid for up to the given instant, and no
// byte moves. If waits aren't measured exactly, it is the tick at which they have to be.
func (d *direction) due(paid int64, exact bool) int64 {
	grace := d.grace
	if !exact {
		grace /= measuredAfter
	}
	return (max(paid, d.from) + grace + d.tick - 1) / d.tick
}

// measuredAfter says that waits are measured exactly once they have used up this fraction of Grace.
const measuredAfter = 8

// limitsOf returns the limits of p, which must be valid. was are those that they replace at the given time, or nil.
func limitsOf(p Policy, k *clock.Clock, was *limits) *limits {
	in := k.Ticks
	l := &limits{policy: p, idle: in(p.IdleTimeout), phase: in(p.PhaseTimeout), maxAge: in(p.MaxAge), jitter: in(p.MaxAgeJitter), grace: in(p.MaxAgeGrace)}
	l.in = directionOf(p.ReadTimeout, p.MinReadRate, k)
	l.out = directionOf(p.WriteTimeout, p.MinWriteRate, k)
	first := int64(0)
	if h := &p.Heartbeat; h.Interval > 0 {
		l.beats, l.misses = in(h.limit()), h.misses()
		first = l.beats
		if !h.Passive {
			l.interval, l.pong = in(h.Interval), in(h.Timeout)
			l.pingJitter = min(in(h.Jitter), l.interval)
			first = max(1, l.interval-max(0, l.pingJitter-1))
		}
	}
	l.soonest = soonest(l.idle, l.phase, first)
	l.first = min(l.soonest, soonest(l.maxAge), l.in.soonest, l.out.soonest)
	for _, r := range []Rate{p.MinReadRate, p.MinWriteRate} {
		if r.Grace > 0 { // counts from an instant, and not from the end of its tick
			l.first = min(l.first, uint32(in(r.Grace/measuredAfter)))
		}
	}
	if was == nil {
		return l
	}
	now := k.Elapsed()
	l.in.continues(&was.in, now)
	l.out.continues(&was.out, now)
	if l.used = was.used; p.ExplicitUse && !was.policy.ExplicitUse {
		l.used = k.Now()
	}
	if l.heartbeat = was.heartbeat; was.beats == 0 || (was.interval == 0) != (l.interval == 0) {
		l.heartbeat = k.Now()
	}
	return l
}

func directionOf(silence time.Duration, r Rate, k *clock.Clock) direction {
	d := direction{rate: r.BytesPerSecond, grace: int64(r.Grace), tick: int64(k.Tick)}
	d.silence = k.Ticks(silence)
	d.soonest = soonest(d.silence)
	return d
}

// continues keeps the account of was, if there is one, or begins another one.
func (d *direction) continues(was *direction, now time.Duration) {
	if d.from = was.from; was.rate == 0 {
		d.from = int64(now)
	}
}

// soonest returns after how many ticks the first of some limits passes. Those that are 0 are off.
func soonest(ticks ...int64) uint32 {
	first := int64(clock.MaxTicks)
	for _, n := range ticks {
		if n > 0 {
			first = min(first, n)
		}
	}
	return uint32(first) + 1
}

// A snapshot is a connection at one moment. Deadlines are computed from it and from nothing else. Its values are ticks,
// unless they say otherwise.
type snapshot struct {
	clock.Moment
	in, out flowState
	seed    uint32 // differs between connections, for jitter

	lastIn, lastOut, used, unread, beat, pinged, began, born, told int64

	unanswered, exact bool
	misses            int

	busy  bool // it is in the middle of something; only the forecast of a drain goes by that
	drain turn

	still bool // nothing will move, as a forecast assumes: no ping is answered, and what is busy stays so
}

// A flowState has the words of a flow.
type flowState struct{ at, paid int64 }

// since returns the tick in which the wait or the pause began.
func (f *flowState) since(d *direction) int64 { return f.at / d.tick }

// A turn is what a drain does to a connection. It is zero without one.
type turn struct {
	at    int64 // the tick at which the owner is asked to finish; 0 without a drain
	grace int64 // between that and the end
	again int64 // the tick at which it ends, unless it's in use; 0 before its owner was asked to finish
	force int64 // the tick at which the connection ends, busy or not; 0 for never
}

// A deadline is what happens to a connection next, and when.
type deadline struct {
	at   int64 // the tick; Lateness counts from it
	from int64 // the first tick that counted, as End returns it
	what event
	by   Reason
}

// An event is what happens at a deadline.
type event uint8

const (
	evEnd     event = iota // the connection ends
	evPing                 // the owner has to ping
	evMiss                 // a ping has stayed unanswered
	evTell                 // the owner has to be asked to finish
	evMeasure              // a minimum rate seems to be missed, so waits have to be measured exactly
	evAgain                // the deadline has to be computed again, because it may have changed
)

// unreadTicks is for how long unread input puts off a limit that bytes don't restart. It's for an owner that is about
// to read.
const unreadTicks = 5

// next returns what happens to a connection first if nothing moves, and when. If two events are due, or fall in the same
// tick, one that ends the connection comes first, so that a ping does not delay it.
//
// Unread input counts like input for the limits that bytes restart. The others it puts off by a few ticks, once
// they have passed.
func (l *limits) next(s *snapshot) deadline {
	d := deadline{at: s.Now + clock.MaxTicks, what: evAgain}
	switch {
	case l.idle == 0:
	case l.policy.ExplicitUse:
		used := max(s.used, l.used)
		d.after(s, l.idle+s.putOff(used+1+l.idle), used, evEnd, ReasonIdle)
	default:
		d.after(s, l.idle, max(s.used, s.lastIn, s.lastOut, s.unread), evEnd, ReasonIdle)
	}
	if s.in.at&waiting != 0 {
		d.after(s, l.in.silence, max(s.in.since(&l.in), s.lastIn, s.unread), evEnd, ReasonRead)
	}
	if s.out.at&waiting != 0 {
		d.after(s, l.out.silence, max(s.out.since(&l.out), s.lastOut), evEnd, ReasonWrite)
	}
	if l.maxAge > 0 {
		l.nextOfAge(s, &d)
	}
	if l.beats > 0 {
		l.nextOfBeats(s, &d)
	}
	if l.in.rate > 0 && s.in.at&waiting != 0 {
		slow := l.in.missed(&s.in, s.exact, ReasonMinReadRate)
		if slow.what == evEnd {
			slow.at += s.putOff(slow.at)
		}
		d.sooner(s, slow)
	}
	if l.out.rate > 0 && s.out.at&waiting != 0 {
		d.sooner(s, l.out.missed(&s.out, s.exact, ReasonMinWriteRate))
	}
	if l.phase > 0 {
		d.after(s, l.phase+s.putOff(s.began+1+l.phase), s.began, evEnd, ReasonPhase)
	}
	if s.drain.at != 0 {
		d.sooner(s, s.nextOfDrain())
	}
	return d
}

// missed returns what happens when the minimum rate is missed.
func (d *direction) missed(f *flowState, exact bool, by Reason) deadline {
	what := evEnd
	if !exact {
		what = evMeasure
	}
	return deadline{d.due(f.paid, exact), max(f.paid, d.from) / d.tick, what, by}
}

// putOff returns by how much unread input puts off a limit that passes at the given tick. The word unread has the tick
// before that at which it was found, or that of born if none was.
func (s *snapshot) putOff(at int64) int64 {
	if s.unread >= at-1 && s.unread > s.born {
		return unreadTicks
	}
	return 0
}

// nextOfAge adds when MaxAge passes, or its grace. The owner may have been asked to finish before these limits were in force,
// because of a shorter one. Then that counts only if it was after MaxAge had passed.
func (l *limits) nextOfAge(s *snapshot, d *deadline) {
	due := l.maxAge + jitter(s.seed, l.jitter)
	switch {
	case l.grace == 0:
		d.after(s, due, s.born, evEnd, ReasonMaxAge)
	case s.told < s.born+1+due || s.told < s.End(s.born)+due:
		d.after(s, due, s.born, evTell, ReasonMaxAge)
	default:
		if d.after(s, l.grace, s.told, evEnd, ReasonMaxAge) {
			d.from = s.End(s.born)
		}
	}
}

// nextOfBeats adds the next ping or miss, or the end of a heartbeat.
//
// Input with the same tick as the ping counts as an answer. The ping was sent
// because nothing had arrived for long, so that input came after it.
func (l *limits) nextOfBeats(s *snapshot, d *deadline) {
	heard := max(s.lastIn, s.unread)
	interval := l.interval - jitter(s.seed, l.pingJitter)
	silence := int64(0) // that ends it, after the last ping
	if s.misses+1 >= l.misses {
		silence = interval + int64(l.misses)*l.pong
	}
	switch {
	case l.interval == 0:
		from := max(s.beat, l.heartbeat)
		d.after(s, l.beats+s.putOff(from+1+l.beats), from, evEnd, ReasonHeartbeat)
	case !s.unanswered || heard >= s.pinged || s.pinged <= l.heartbeat: // a ping in the tick of SetPolicy came before it
		d.after(s, interval, max(heard, s.pinged, l.heartbeat), evPing, ReasonHeartbeat)
	case max(s.pinged+l.pong, heard+silence) > s.Now+interval && !s.still: // if it is answered before, the next ping may be due earlier
		d.after(s, interval, s.Now, evAgain, ReasonHeartbeat)
	case s.misses+1 < l.misses:
		d.after(s, l.pong, s.pinged, evMiss, ReasonHeartbeat)
	default: // silence is over later than the ping's Timeout if that was due by a shorter interval, before SetPolicy
		at := max(s.End(s.pinged)+l.pong, s.End(max(heard, l.heartbeat))+silence)
		d.sooner(s, deadline{at, s.End(s.lastIn), evEnd, ReasonHeartbeat})
	}
}

// nextOfDrain returns what the drain does next.
func (s *snapshot) nextOfDrain() deadline {
	d := deadline{s.drain.at, s.drain.at, evTell, ReasonDrain}
	if s.drain.again != 0 {
		d.at, d.what = s.drain.again, evEnd
		if s.busy && s.still {
			d.at = never
		}
	}
	if f := s.drain.force; f != 0 && f <= max(d.at, s.Now) {
		d.at, d.what = f, evEnd
	}
	return d
}

// after takes over an event that comes so many ticks after all activities of the tick from, if it's sooner than d. It reports
// whether it is. It has no effect if the limit is off.
func (d *deadline) after(s *snapshot, ticks, from int64, what event, by Reason) bool {
	// Look up the end of a tick only if it matters, because that may take long.
	if ticks == 0 || !d.comesAfter(from+1+ticks, s.Now, what) {
		return false
	}
	from = s.End(from)
	return d.sooner(s, deadline{from + ticks, from, what, by})
}

// sooner takes over next if it's sooner than d. It reports whether it is.
func (d *deadline) sooner(s *snapshot, next deadline) bool {
	is := d.comesAfter(next.at, s.Now, next.what)
	if is {
		*d = next
	}
	return is
}

// comesAfter reports whether d comes after an event at the given tick.
func (d *deadline) comesAfter(at, now int64, what event) bool {
	if at == d.at || at <= now && d.at <= now {
		if ends := what == evEnd; ends != (d.what == evEnd) {
			return ends
		}
	}
	return at < d.at
}

// jitter returns a number from 0 to n-1 that depends on seed, or 0 if n is 0.
func jitter(seed uint32, n int64) int64 {
	if n == 0 {
		return 0
	}
	// Connections lie at regular distances in memory, and a multiplication alone would map some of
	// these to a few groups. This is the finalizer of MurmurHash3 (Austin Appleby).
	seed ^= seed >> 16
	seed *= 0x85EBCA6B
	seed ^= seed >> 13
	seed *= 0xC2B2AE35
	seed ^= seed >> 16
	return int64(uint64(seed) * uint64(n) >> 32)
}

// settled returns when a pass for the given tick runs.
func settled(now, tick int64) int64 { return now*tick + tick/clock.SlackShare }

// ends returns when a connection ends, and by what, if nothing moves: no byte, no beat, no close. by is 0 if it doesn't end.
// Until then one event comes after the other, each in a pass, so not before the present.
func (l *limits) ends(s *snapshot) (d deadline) {
	s.still = true
	for {
		d = l.next(s)
		s.Now = max(s.Now, d.at)
		switch d.what {
		case evEnd:
			return d
		case evTell:
			if s.told = s.Now; d.by == ReasonDrain {
				s.drain.again = s.Now + 1 + s.drain.grace
			}
		case evPing:
			s.pinged, s.unanswered, s.misses = s.Now, true, 0
		case evMiss:
			s.pinged, s.misses = s.Now, s.misses+1
		case evMeasure:
			s.exact = true
			s.in.paid = max(s.in.paid, settled(s.Now, l.in.tick))
			s.out.paid = max(s.out.paid, settled(s.Now, l.out.tick))
		default:
			return deadline{}
		}
	}
}
