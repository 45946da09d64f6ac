package idle

import (
	"unsafe"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
	"github.com/idlewheel/idlewheel/idle/internal/words"
	"github.com/idlewheel/idlewheel/wheel"
)

// An entry has the words of a connection, and its place in the wheel.
type entry struct {
	in, out flow

	born, began, beat, pinged clock.AtomicStamp

	placed words.Uint32
	state  state

	timer wheel.Timer
	phase words.Pointer[Phase]

	// These are used rarely, so they come after the words of the cache line.
	pingSent clock.AtomicStamp
	index    uint32 // in connSet.all
}

// start sets all words of a connection at the start of tracking: a read is
// waiting, a write is not.
func (e *entry) start(stamp clock.Stamp) {
	for _, s := range []*clock.AtomicStamp{&e.born, &e.began, &e.beat, &e.pinged, &e.pingSent, &e.in.stamp, &e.out.stamp} {
		s.Store(stamp)
	}
	e.in.wait.Store(wordOf(stamp) | waiting)
	e.out.wait.Store(wordOf(stamp))
}

// refresh moves old stamps forward, so that their age does not overflow.
func (e *entry) refresh(now int64) {
	oldest := clock.StampOf(now - 2*maxTicks)
	for _, s := range [...]*clock.AtomicStamp{&e.born, &e.began, &e.beat, &e.pinged, &e.pingSent, &e.in.stamp, &e.out.stamp} {
		s.Raise(oldest)
	}
	e.in.refresh(oldest)
	e.out.refresh(oldest)
}

// look returns the next deadline of e under p. p must have been loaded before the
// call.
func (e *entry) look(p *Phase, m moment) deadline {
	s := snapshot{moment: m}
	e.snapshot(&s)
	return next(&s, p.limits)
}

// next returns the next deadline of e.
func (e *entry) next(m moment) deadline { return e.look(e.phase.Load(), m) }

// seed returns a number that differs between connections.
func (e *entry) seed() uint32 { return uint32(uintptr(unsafe.Pointer(e)) >> 4) }

// snapshot loads the words of a connection into s, for the moment in s, in the order that
// conn.go explains. The phase must have been loaded before.
func (e *entry) snapshot(s *snapshot) {
	s.state = e.state.Load()
	s.seed = e.seed()
	inWait, outWait := e.in.wait.Load(), e.out.wait.Load()
	s.pinged = s.tick(e.pinged.Load())
	s.in.used, s.out.used = s.tick(e.in.stamp.Load()), s.tick(e.out.stamp.Load())
	s.in.setWait(s.moment.now, inWait, e.in.paid.Load())
	s.out.setWait(s.moment.now, outWait, e.out.paid.Load())
	s.began, s.beat, s.born = s.tick(e.began.Load()), s.tick(e.beat.Load()), s.tick(e.born.Load())
	s.in.last, s.out.last = max(s.in.used, s.beat), max(s.out.used, s.tick(e.pingSent.Load()))
}

// direction returns the part of the current phase that concerns f.
func (e *entry) direction(f *flow) *direction { return e.phase.Load().direction(f == &e.out) }

// overdue returns the flag overdueIn or overdueOut.
func (e *entry) overdue(f *flow) uint32 {
	if f == &e.out {
		return overdueOut
	}
	return overdueIn
}

// follow moves e to the current version of its phase, if the phase's policy was replaced. It
// reports whether it did. Limits go on counting from where they were. A limit for which the old
// version kept no account counts from now.
func (e *entry) follow(k *clock.Clock) (followed bool) {
	for {
		old := e.phase.Load()
		p := old.latest()
		if p == old {
			return followed
		}
		if !p.in.continues(&old.in) {
			e.countFromNow(&e.in, old, k)
		}
		if !p.out.continues(&old.out) {
			e.countFromNow(&e.out, old, k)
		}
		if beat, was := p.policy.Heartbeat, old.policy.Heartbeat; beat.Interval > 0 && (was.Interval == 0 || was.Passive != beat.Passive) {
			e.pinged.Raise(clock.StampOf(k.Now()))
			e.state.drop(unanswered | missMask)
		}
		if age, was := &p.policy, &old.policy; e.state.Load()&draining != 0 && (age.MaxAge != was.MaxAge || age.MaxAgeJitter != was.MaxAgeJitter) {
			e.state.drop(draining) // the owner is asked to finish again, and has the new grace
		}
		followed = e.phase.CompareAndSwap(old, p) || followed // if not, another phase has been entered
	}
}

// countFromNow restarts the accounts of f at the current time, and takes back what is paid beyond
// it, as long as e is in the given phase:
//
//	check:   loads paid
//	other:  Enter another phase: stores paid, then phase
//	reader: pays for what arrives in that phase
//	check:   CompareAndSwap of paid fails, or phase is another
func (e *entry) countFromNow(f *flow, in *Phase, k *clock.Clock) {
	for {
		paid, now := f.paid.Load(), k.Instant()
		if paid.Sub(now) <= 0 || e.phase.Load() != in || f.paid.CompareAndSwap(paid, now) {
			break
		}
	}
	e.state.drop(e.overdue(f)) // first, because letOff moves a pause before it pays for that
	f.letOff(k.Instant)
	e.state.drop(e.overdue(f))
}

// lastUse returns the stamp of the last use in either direction.
func (e *entry) lastUse() clock.Stamp { return e.in.stamp.Load().Later(e.out.stamp.Load()) }

// last returns the stamp of the last activity on f, used or not.
func (e *entry) last(f *flow) clock.Stamp {
	if f == &e.out {
		return f.stamp.Load().Later(e.pingSent.Load())
	}
	return f.stamp.Load().Later(e.beat.Load())
}

// isBusy reports whether e is in the middle of something: it's in a phase that says so, its owner
// doesn't wait for input, or its owner is being asked to finish. isInUse also considers unread
// and unsent bytes.
func (e *entry) isBusy() bool {
	return e.phase.Load().latest().policy.NoInterrupt || !e.in.waits() || e.state.Load()&telling != 0
}

// restart restarts the clock of one limit at stamp, and affects others as little as possible.
func (e *entry) restart(t *terms, stamp clock.Stamp, k *clock.Clock) {
	switch t.counts {
	case ofUse:
		e.out.stamp.Raise(stamp) // of the other limits, only one for a waiting write uses it
	case ofRead:
		e.in.rewait(stamp)
	case ofWrite:
		e.out.rewait(stamp)
	case ofReads:
		e.in.letOff(k.Instant)
	case ofWrites:
		e.out.letOff(k.Instant)
	case ofBeats:
		e.pinged.Raise(stamp) // not beat: a Beat with the same stamp would return at once
		e.state.drop(unanswered | missMask)
	case ofPhase:
		e.began.Raise(stamp)
	case ofLife:
		e.born.Raise(stamp)
		e.state.drop(draining)
	}
}
