// Package deadlines computes when the limits of a connection pass, and which is next, from plain values.
// It reads no clock and no word of a connection.
package deadlines

import (
	"math"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// A Snapshot is a connection at one moment, in ticks. Limits are computed from it and from nothing
// else.
type Snapshot struct {
	clock.Moment
	In, Out Flow
	Seed    uint32 // differs between connections, for jitter

	Born, Began, Beat, Pinged int64 // when it was tracked, its phase began, and of the last beat and ping

	Unanswered bool // the last ping, unless something has arrived since
	Misses     int  // pings before that one that were not answered, in a row

	Told  int64 // when its owner was last asked to finish, or when it was tracked
	Busy  bool  // it is in the middle of something; only the forecast of a drain goes by that
	Drain Drain

	still bool // nothing will move, as a forecast assumes: no ping is answered, and what is busy stays so
}

// A Drain is what a drain does to a connection. It is zero without one.
type Drain struct {
	Terms *Terms
	Turn  int64 // the tick at which the owner is asked to finish
	Again int64 // it was in use, and is looked at again at this tick
	Force int64 // the tick at which the connection ends, busy or not; 0 for never
}

// A Flow is one direction of a connection at one moment, in ticks.
type Flow struct {
	Used    int64 // the last use
	Last    int64 // the last activity, used or not
	Waits   bool  // there is a wait
	Since   int64 // the start of the wait, or of the pause
	Overdue bool  // a wait has begun beyond the limit of all waits

	paid int64 // the instant up to which waits are paid for, rounded up
	owed int64 // how far paid was behind when the pause began, as 32.32
}

// SetPaid sets the instant up to which waits are paid for. It comes after Since.
func (f *Flow) SetPaid(now int64, paid clock.Instant) {
	f.paid = clock.Moment{Now: now}.TickOf(paid.Add(1<<32 - 1).Bits())
	f.owed = clock.StartOf(uint32(f.Since)).Sub(paid)
}

// A Basis says what a limit counts from.
type Basis uint8

const (
	OfUse    Basis = iota // the last use in either direction
	OfRead                // the last byte that arrived during the current wait, or the start of the wait
	OfWrite               // the last byte that was sent during the current wait, or the start of the wait
	OfReads               // all waits since the phase began, less what bytes have paid for
	OfWrites              // like OfReads, for waits to send
	OfBeats               // passive: the last beat; active: the last byte that arrived, then the last ping
	OfPhase               // the start of the phase
	OfLife                // the start of tracking
)

// Terms are a limit in ticks.
type Terms struct {
	Limit  uint8 // which one it is; for the caller
	Counts Basis
	Ticks  int64 // that the limit allows

	Jitter         int64 // for OfLife and an active heartbeat
	Grace          int64 // for OfLife and a drain, between asking the owner to finish and the end
	Interval, Pong int64 // for an active heartbeat: between pings, and for the answer
	Misses         int   // for an active heartbeat: how many end the connection
}

// A count is the state of a limit's clock. (Its four words are returned in
// registers.)
type count struct {
	ticks int64 // that the limit allows; 0 if its clock is not running
	from  int64 // the tick from which the clock counts
	ahead int64 // ticks paid for beyond from
	what  Event
}

// An Event is what happens when a count is over.
type Event uint8

const (
	End   Event = iota // the connection has passed the limit
	Ping               // the owner has to ping
	Miss               // a ping has stayed unanswered
	Tell               // the owner has to be asked to finish
	Again              // compute the deadline again, because it may have changed
)

func (what Event) String() string {
	return [...]string{End: "end", Ping: "ping", Miss: "miss", Tell: "tell", Again: "again"}[what]
}

// count returns the state of the limit's clock in s.
func (t *Terms) count(s *Snapshot) count {
	switch t.Counts {
	case OfUse:
		return count{ticks: t.Ticks, from: max(s.In.Used, s.Out.Used)}
	case OfRead:
		return s.In.silence(t)
	case OfWrite:
		return s.Out.silence(t)
	case OfReads:
		return s.In.unpaid(t)
	case OfWrites:
		return s.Out.unpaid(t)
	case OfBeats:
		return s.heartbeat(t)
	case OfPhase:
		return count{ticks: t.Ticks, from: s.Began}
	default:
		return s.age(t)
	}
}

// silence counts the part of the current wait in which no byte has moved.
func (f *Flow) silence(t *Terms) count {
	if !f.Waits {
		return count{}
	}
	return count{ticks: t.Ticks, from: max(f.Last, f.Since)}
}

// unpaid counts the time of all waits that is not paid for. It does not count during a pause. The
// wait before may have passed the limit only because the owner was late to read input that had
// arrived in time, and the owner is working on that now. But after a wait has begun beyond the
// limit (overdue), pauses count too. Otherwise a peer that trickles could escape if all checks
// fell into its pauses.
func (f *Flow) unpaid(t *Terms) count {
	if !f.Waits && (!f.Overdue || f.owed <= (t.Ticks+1)<<32) {
		return count{}
	}
	return count{ticks: t.Ticks, from: f.Since, ahead: f.paid - f.Since}
}

// heartbeat counts to the next ping or miss, or to the end of a passive
// heartbeat.
//
// Input with the same stamp as the ping counts as an answer. The ping was sent
// because nothing had arrived for long, so that input came after it.
func (s *Snapshot) heartbeat(t *Terms) count {
	interval := t.Interval - jitter(s.Seed, t.Jitter)
	switch {
	case t.Interval == 0:
		return count{ticks: t.Ticks, from: max(s.Beat, s.Pinged)}
	case s.isAnswered():
		return count{ticks: interval, from: max(s.In.Last, s.Pinged), what: Ping}
	case s.Pinged+t.Pong > s.Now+interval && !s.still: // if it is answered before, the next ping may be due earlier than the miss
		return count{ticks: interval, from: s.Now, what: Again}
	case s.Misses+1 < t.Misses:
		return count{ticks: t.Pong, from: s.Pinged, what: Miss}
	}
	return count{ticks: t.Pong, from: s.Pinged}
}

// isAnswered reports whether there is no ping that waits for an answer.
func (s *Snapshot) isAnswered() bool { return !s.Unanswered || s.In.Last >= s.Pinged }

// age counts to the start of the grace, or to its end. The owner may have been asked to finish
// before this limit was in force, because of a shorter one. Then that counts only if it was after
// this limit had passed.
func (s *Snapshot) age(t *Terms) count {
	due := t.Ticks + jitter(s.Seed, t.Jitter)
	switch {
	case t.Grace == 0:
		return count{ticks: due, from: s.Born}
	case s.Told < s.Born+1+due || s.Told < s.End(s.Born)+due:
		return count{ticks: due, from: s.Born, what: Tell}
	}
	return count{ticks: t.Grace, from: s.Told}
}

// drain returns what the drain does next.
func (s *Snapshot) drain() Deadline {
	d := Deadline{At: s.Drain.Turn, From: s.Drain.Turn, What: Tell, Terms: s.Drain.Terms}
	if s.Told >= s.Drain.Turn {
		d.At, d.What = max(s.End(s.Told)+s.Drain.Terms.Grace, s.Drain.Again), End
		if s.Busy && s.still {
			d.At = math.MaxInt64
		}
	}
	if f := s.Drain.Force; f != 0 && f <= max(d.At, s.Now) {
		d.At, d.What = f, End
	}
	return d
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

// A Deadline is the tick at which an event of a connection is due, and the tick from which its
// limit counts.
type Deadline struct {
	At, From int64
	What     Event
	Terms    *Terms // of the limit; nil if there is none
}

// Next returns the soonest deadline of the given limits. If two are due, or fall
// in the same tick, one that ends the connection comes first, so that a ping or
// the start of a grace does not delay it.
func Next(s *Snapshot, of []Terms) Deadline {
	d := Deadline{At: s.Now + clock.MaxTicks, What: Again}
	for i := range of {
		t := &of[i]
		c := t.count(s)
		// Look up the end of a stamp only if it matters, because that may take long.
		if c.ticks == 0 || !d.comesAfter(c.from+1+c.ahead+c.ticks, s.Now, c.what) {
			continue
		}
		if from := s.End(c.from) + c.ahead; d.comesAfter(from+c.ticks, s.Now, c.what) {
			d = Deadline{At: from + c.ticks, From: from, What: c.what, Terms: t}
			switch {
			case c.what != End: // From is for errors
			case t.Interval > 0: // c.from is the last ping, but the error counts from the last input
				d.From = s.End(s.In.Last)
			case t.Counts == OfLife: // and in the grace from the beginning
				d.From = s.End(s.Born)
			}
		}
	}
	if s.Drain.Terms != nil {
		if next := s.drain(); d.comesAfter(next.At, s.Now, next.What) {
			d = next
		}
	}
	return d
}

// comesAfter reports whether d comes after an event at the given tick.
func (d *Deadline) comesAfter(at, now int64, what Event) bool {
	if at == d.At || at <= now && d.At <= now {
		if ends := what == End; ends != (d.What == End) {
			return ends
		}
	}
	return at < d.At
}
