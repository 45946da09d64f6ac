package idle

import "time"

// A snapshot is what a connection has noted, at one moment, in ticks. It is all that
// the limits know.
type snapshot struct {
	moment
	state   uint32
	seed    uint32 // differs between connections
	in, out flowSnapshot

	born, began, beat, pinged int64
}

// A flowSnapshot is a flow at one moment, in ticks.
type flowSnapshot struct {
	last  int64 // of the last byte
	waits bool  // bytes are awaited, or wait to go out
	since int64 // of the beginning of that, or of the pause

	// paid is the tick up to which bytes and pauses have paid, rounded up.
	paid int64

	// owed is how much more was waited than was paid for, in ticks as 32.32, when
	// the pause began.
	owed int64
}

// waited sets what a wait, and what is paid, tell.
func (f *flowSnapshot) setWait(now int64, wait uint32, paid uint64) {
	f.waits = wait&waiting != 0
	f.since = now - int64(ago(wait, uint32(now)))
	f.paid = moment{now: now}.tick(uint32((paid + 1<<32 - 1) >> 32))
	f.owed = int64(instantOf(uint32(f.since)) - paid)
}

// terms are a limit under one policy, in ticks.
type terms struct {
	*limit
	reason  Reason
	allowed time.Duration // as configured
	ticks   int64         // that it allows

	jitter, grace  int64 // of MaxAge
	interval, pong int64 // of an active heartbeat
	misses         int
}

// A count is how far a limit has counted. (Four words are returned in registers.)
type count struct {
	ticks int64 // that it allows; 0 if it does not count at present
	from  int64 // the tick of the stamp from which it does
	ahead int64 // ticks that are paid for beyond that
	what  event
}

// An event is what happens when a count is over.
type event uint8

const (
	end   event = iota // the connection has passed the limit
	ping               // its owner is to ping
	miss               // a ping is unanswered
	drain              // its owner is to finish
	again              // nothing happens, but the deadline may be another by then
)

// count returns how far the limit has counted in s.
func (t *terms) count(s *snapshot) count {
	switch t.counts {
	case ofActivity:
		return count{ticks: t.ticks, from: max(s.in.last, s.out.last)}
	case ofRead:
		return s.in.silence(t)
	case ofWrite:
		return s.out.silence(t)
	case ofReads:
		return s.in.unpaid(t)
	case ofWrites:
		return s.out.unpaid(t)
	case ofBeats:
		return s.heartbeat(t)
	case ofPhase:
		return count{ticks: t.ticks, from: s.began}
	default:
		return s.age(t)
	}
}

// still counts the time without a byte in which some are awaited, or wait.
func (f *flowSnapshot) silence(t *terms) count {
	if !f.waits {
		return count{}
	}
	return count{ticks: t.ticks, from: max(f.last, f.since)}
}

// unpaid counts the time waited in all that is not paid for. A pause is no excuse
// for having passed the limit in the wait that it has ended: all looks may fall into
// the pauses of a peer that trickles.
func (f *flowSnapshot) unpaid(t *terms) count {
	if !f.waits && f.owed <= ticks(t.ticks+1) {
		return count{}
	}
	return count{ticks: t.ticks, from: f.since, ahead: f.paid - f.since}
}

// beats counts to the next ping or miss, or the end of the last beat's time.
//
// What arrived within a ping's own tick came after it: the ping was sent because
// nothing had come for long.
func (s *snapshot) heartbeat(t *terms) count {
	switch {
	case t.interval == 0:
		return count{ticks: t.ticks, from: max(s.beat, s.pinged)}
	case s.state&unanswered == 0 || s.in.last >= s.pinged:
		return count{ticks: t.interval, from: max(s.in.last, s.pinged), what: ping}
	case s.pinged+t.pong > s.now+t.interval: // once it is answered, the next ping may be due before
		return count{ticks: t.interval, from: s.now, what: again}
	case misses(s.state)+1 < t.misses:
		return count{ticks: t.pong, from: s.pinged, what: miss}
	}
	return count{ticks: t.pong, from: s.pinged}
}

// life counts to the beginning of the grace, or to its end.
func (s *snapshot) age(t *terms) count {
	due := t.ticks + jitter(s.seed, t.jitter)
	switch {
	case s.state&draining != 0:
		return count{ticks: due + t.grace, from: s.born}
	case t.grace > 0:
		return count{ticks: due, from: s.born, what: drain}
	}
	return count{ticks: due, from: s.born}
}

// jitter returns a number below n, or 0.
func jitter(seed uint32, n int64) int64 {
	if n == 0 {
		return 0
	}
	// A multiply and a shift spread the seed well enough (Knuth, TAOCP 6.4).
	spread := uint64(seed) * 0x9E3779B97F4A7C15 >> 32
	return int64(spread * uint64(n) >> 32)
}

// A deadline is the tick at which something is to happen to a connection, and
// the tick from which the limit that causes it has counted.
type deadline struct {
	at, from int64
	what     event
	terms    *terms // of the limit; nil if there is none
}

// next returns the soonest deadline of the given limits. Of those that are due, or at
// the same tick, one that ends the connection wins, as it must not be late for what
// does not.
func next(s *snapshot, of []terms) deadline {
	d := deadline{at: s.now + maxTicks, what: again}
	for i := range of {
		t := &of[i]
		c := t.count(s)
		// The end of a stamp is found out only if it matters, as that may take long.
		if c.ticks == 0 || !d.comesAfter(c.from+1+c.ahead+c.ticks, s.now, c.what) {
			continue
		}
		if from := s.end(c.from) + c.ahead; d.comesAfter(from+c.ticks, s.now, c.what) {
			d = deadline{at: from + c.ticks, from: from, what: c.what, terms: t}
			if t.interval > 0 && c.what == end { // from the last ping on is not all of it
				d.from = s.end(s.in.last)
			}
		}
	}
	return d
}

// yields reports whether an event at a tick comes before d.
func (d *deadline) comesAfter(at, now int64, what event) bool {
	if at == d.at || at <= now && d.at <= now {
		if ends := what == end; ends != (d.what == end) {
			return ends
		}
	}
	return at < d.at
}
