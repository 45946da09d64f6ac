package idle

import (
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// A snapshot holds the words of a connection at one moment, in ticks. Limits are
// computed from it and from nothing else.
type snapshot struct {
	moment
	state   uint32
	seed    uint32 // differs between connections, for jitter
	in, out flowSnapshot
	silent  bool // no ping will be answered, as a forecast assumes

	born, began, beat, pinged int64
}

// A flowSnapshot is a flow at one moment, in ticks.
type flowSnapshot struct {
	used  int64 // the last use
	last  int64 // the last activity, used or not
	waits bool  // there is a wait
	since int64 // the start of the wait, or of the pause

	// paid is flow.paid in ticks, rounded up.
	paid int64

	// owed is how far paid was behind when the pause began, in ticks as 32.32.
	owed int64
}

// setWait sets the fields that the words wait and paid determine.
func (f *flowSnapshot) setWait(now int64, wait uint32, paid clock.Instant) {
	f.waits = wait&waiting != 0
	f.since = now - int64(ago(wait, uint32(now)))
	f.paid = moment{now: now}.tickOf(paid.Add(1<<32 - 1).Bits())
	f.owed = clock.StartOf(uint32(f.since)).Sub(paid)
}

// terms are a limit under one policy, in ticks.
type terms struct {
	*limit
	reason  Reason
	allowed time.Duration // by the limit, as configured
	ticks   int64         // allowed, in ticks

	jitter         int64 // for MaxAge and an active heartbeat
	grace          int64 // for MaxAge
	interval, pong int64 // for an active heartbeat: its Interval and Timeout
	misses         int
}

// A count is the state of a limit's clock. (Its four words are returned in
// registers.)
type count struct {
	ticks int64 // that the limit allows; 0 if its clock is not running
	from  int64 // the tick from which the clock counts
	ahead int64 // ticks paid for beyond from
	what  event
}

// An event is what happens when a count is over.
type event uint8

const (
	end   event = iota // the connection has passed the limit
	ping               // the owner has to ping
	miss               // a ping has stayed unanswered
	drain              // the owner has to finish
	again              // check again, because the deadline may have changed
)

func (what event) String() string {
	return [...]string{end: "end", ping: "ping", miss: "miss", drain: "drain", again: "again"}[what]
}

// count returns the state of the limit's clock in s.
func (t *terms) count(s *snapshot) count {
	switch t.counts {
	case ofUse:
		return count{ticks: t.ticks, from: max(s.in.used, s.out.used)}
	case ofRead:
		return s.in.silence(t)
	case ofWrite:
		return s.out.silence(t)
	case ofReads:
		return s.in.unpaid(t, s.state&overdueIn != 0)
	case ofWrites:
		return s.out.unpaid(t, s.state&overdueOut != 0)
	case ofBeats:
		return s.heartbeat(t)
	case ofPhase:
		return count{ticks: t.ticks, from: s.began}
	default:
		return s.age(t)
	}
}

// silence counts the part of the current wait in which no byte has moved.
func (f *flowSnapshot) silence(t *terms) count {
	if !f.waits {
		return count{}
	}
	return count{ticks: t.ticks, from: max(f.last, f.since)}
}

// unpaid counts the time of all waits that is not paid for. It does not count during a pause. The
// wait before may have passed the limit only because the owner was late to read input that had
// arrived in time, and the owner is working on that now. But after a wait has begun beyond the
// limit (overdue), pauses count too. Otherwise a peer that trickles could escape if all checks
// fell into its pauses.
func (f *flowSnapshot) unpaid(t *terms, overdue bool) count {
	if !f.waits && (!overdue || f.owed <= ticks(t.ticks+1)) {
		return count{}
	}
	return count{ticks: t.ticks, from: f.since, ahead: f.paid - f.since}
}

// heartbeat counts to the next ping or miss, or to the end of a passive
// heartbeat.
//
// Input with the same stamp as the ping counts as an answer. The ping was sent
// because nothing had arrived for long, so that input came after it.
func (s *snapshot) heartbeat(t *terms) count {
	interval := t.interval - jitter(s.seed, t.jitter)
	switch {
	case t.interval == 0:
		return count{ticks: t.ticks, from: max(s.beat, s.pinged)}
	case s.isAnswered():
		return count{ticks: interval, from: max(s.in.last, s.pinged), what: ping}
	case s.pinged+t.pong > s.now+interval && !s.silent: // if it is answered before, the next ping may be due earlier than the miss
		return count{ticks: interval, from: s.now, what: again}
	case misses(s.state)+1 < t.misses:
		return count{ticks: t.pong, from: s.pinged, what: miss}
	}
	return count{ticks: t.pong, from: s.pinged}
}

// isAnswered reports whether there is no ping that waits for an answer.
func (s *snapshot) isAnswered() bool { return s.state&unanswered == 0 || s.in.last >= s.pinged }

// misses returns how many pings in a row were not answered under p. The next ping clears
// those before an answer. Where there are no pings, the state may still hold those of an
// active Heartbeat that p replaced.
func (s *snapshot) misses(p *Policy) int {
	if p.Heartbeat.Interval == 0 || s.isAnswered() {
		return 0
	}
	return misses(s.state)
}

// age counts to the start of the grace, or to its end.
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

// jitter returns a number from 0 to n-1 that depends on seed, or 0 if n is 0.
func jitter(seed uint32, n int64) int64 {
	if n == 0 {
		return 0
	}
	// A multiply and a shift spread the seed well enough (Knuth, TAOCP 6.4).
	spread := uint64(seed) * 0x9E3779B97F4A7C15 >> 32
	return int64(spread * uint64(n) >> 32)
}

// A deadline is the tick at which an event of a connection is due, and the tick from which its
// limit counts.
type deadline struct {
	at, from int64
	what     event
	terms    *terms // of the limit; nil if there is none
}

// next returns the soonest deadline of the given limits. If two are due, or fall
// in the same tick, one that ends the connection comes first, so that a ping or
// the start of a grace does not delay it.
func next(s *snapshot, of []terms) deadline {
	d := deadline{at: s.now + maxTicks, what: again}
	for i := range of {
		t := &of[i]
		c := t.count(s)
		// Look up the end of a stamp only if it matters, because that may take long.
		if c.ticks == 0 || !d.comesAfter(c.from+1+c.ahead+c.ticks, s.now, c.what) {
			continue
		}
		if from := s.end(c.from) + c.ahead; d.comesAfter(from+c.ticks, s.now, c.what) {
			d = deadline{at: from + c.ticks, from: from, what: c.what, terms: t}
			if t.interval > 0 && c.what == end { // c.from is the last ping, but Elapsed counts from the last input
				d.from = s.end(s.in.last)
			}
		}
	}
	return d
}

// comesAfter reports whether d comes after an event at the given tick.
func (d *deadline) comesAfter(at, now int64, what event) bool {
	if at == d.at || at <= now && d.at <= now {
		if ends := what == end; ends != (d.what == end) {
			return ends
		}
	}
	return at < d.at
}

const (
	never = 1<<63 - 1 // a tick that does not come

	// maxTicks is the longest timeout in ticks. Stamps have 31 or 32 bits.
	maxTicks = clock.MaxTicks
)

// A moment is the time at which a connection is checked. Most checks only find that nothing is
// due. They use a moment without a clock, which assumes that every stamp ended one tick later.
// Before a connection is pinged or ended, a moment with a clock asks the clock when the stamp
// really ended.
type moment struct {
	now     int64         // connections whose deadline is this tick or earlier may be ended
	elapsed time.Duration // clock.Elapsed at this moment; not set without a clock
	clock   *clock.Clock
}

// momentOf returns the current moment, with the clock.
func momentOf(k *clock.Clock) moment {
	elapsed := k.Elapsed()
	return moment{now: int64((elapsed - k.Slack) / k.Tick), elapsed: elapsed, clock: k}
}

// after returns the time from the start of the given tick to m.
func (m moment) after(tick int64) time.Duration { return m.elapsed - time.Duration(tick)*m.clock.Tick }

// tick returns the tick of a stamp. The stamp must be at most 2³¹ ticks old.
func (m moment) tick(stamp clock.Stamp) int64 { return m.tickOf(stamp.Bits()) }

// tickOf returns the tick with the given low 32 bits.
func (m moment) tickOf(bits uint32) int64 { return m.now - int64(int32(uint32(m.now)-bits)) }

// end returns the first tick that began after every activity in the given tick.
func (m moment) end(tick int64) int64 {
	if m.clock == nil {
		return tick + 1
	}
	return m.clock.End(tick)
}

// since returns how long ago all activities with the given stamp were, at least. The
// stamp may have been in use for a slack longer than end knows. If it was computed from
// SocketState, the result may be too long by a tick.
func (m moment) since(stamp clock.Stamp) time.Duration {
	return max(0, m.after(m.end(m.tick(stamp)))-m.clock.Slack)
}
