package idle

import (
	"unsafe"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
	"github.com/idlewheel/idlewheel/idle/internal/deadlines"
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
	pingSent, told clock.AtomicStamp
	index          uint32 // in connSet.all
}

// start sets all words of a connection at the start of tracking: a read is
// waiting, a write is not.
func (e *entry) start(stamp clock.Stamp) {
	for _, s := range []*clock.AtomicStamp{&e.born, &e.began, &e.beat, &e.pinged, &e.told, &e.pingSent, &e.in.stamp, &e.out.stamp} {
		s.Store(stamp)
	}
	e.in.wait.Store(wordOf(stamp) | waiting)
	e.out.wait.Store(wordOf(stamp))
}

// refresh moves old stamps forward, so that their age does not overflow.
func (e *entry) refresh(now int64) {
	oldest := clock.StampOf(now - 2*clock.MaxTicks)
	for _, s := range [...]*clock.AtomicStamp{&e.born, &e.began, &e.beat, &e.pinged, &e.told, &e.pingSent, &e.in.stamp, &e.out.stamp} {
		s.Raise(oldest)
	}
	e.in.refresh(oldest)
	e.out.refresh(oldest)
}

// seed returns a number that differs between connections.
func (e *entry) seed() uint32 { return uint32(uintptr(unsafe.Pointer(e)) >> 4) }

// snapshot loads the words of a connection at the moment m, in the order that conn.go explains. The
// phase must have been loaded before. Shard.snapshot adds what a drain does.
func (e *entry) snapshot(m clock.Moment) (s deadlines.Snapshot) {
	s.Moment = m
	st := e.state.Load()
	if st&(unanswered|missMask|overdueIn|overdueOut) != 0 { // rarely so
		s.Unanswered, s.Misses = st&unanswered != 0, misses(st)
		s.In.Overdue, s.Out.Overdue = st&overdueIn != 0, st&overdueOut != 0
	}
	s.Seed = e.seed()
	inWait, outWait := e.in.wait.Load(), e.out.wait.Load()
	s.Pinged = s.Tick(e.pinged.Load())
	s.In.Used, s.Out.Used = s.Tick(e.in.stamp.Load()), s.Tick(e.out.stamp.Load())
	setWait(&s.In, s.Now, inWait, e.in.paid.Load())
	setWait(&s.Out, s.Now, outWait, e.out.paid.Load())
	s.Began, s.Beat, s.Born, s.Told = s.Tick(e.began.Load()), s.Tick(e.beat.Load()), s.Tick(e.born.Load()), s.Tick(e.told.Load())
	s.In.Last, s.Out.Last = max(s.In.Used, s.Beat), max(s.Out.Used, s.Tick(e.pingSent.Load()))
	return s
}

// setWait sets the fields of f that the words wait and paid determine.
func setWait(f *deadlines.Flow, now int64, wait uint32, paid clock.Instant) {
	f.Waits = wait&waiting != 0
	f.Since = now - int64(ago(wait, uint32(now)))
	f.SetPaid(now, paid)
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
		if p.policy.Heartbeat.Interval > 0 && p.beats != old.beats {
			e.pinged.Raise(clock.StampOf(k.Now()))
			e.state.drop(unanswered | missMask)
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
func (e *entry) restart(t *deadlines.Terms, stamp clock.Stamp, k *clock.Clock) {
	switch t.Counts {
	case deadlines.OfUse:
		e.out.stamp.Raise(stamp) // of the other limits, only one for a waiting write uses it
	case deadlines.OfRead:
		e.restartWait(&e.in, keptIn, stamp)
	case deadlines.OfWrite:
		e.restartWait(&e.out, keptOut, stamp)
	case deadlines.OfReads:
		e.in.letOff(k.Instant)
	case deadlines.OfWrites:
		e.out.letOff(k.Instant)
	case deadlines.OfBeats:
		e.pinged.Raise(stamp) // not beat: a Beat with the same stamp would return at once
		e.state.drop(unanswered | missMask)
	case deadlines.OfPhase:
		e.began.Raise(stamp)
	}
}

// restartWait restarts the wait on f at stamp. If there is none, it may have been suspended, and
// restarts when it's resumed:
//
//	OnTimeout: finds no wait, sets keptIn, and looks again
//	reader:    resumes the wait, then loads the state
func (e *entry) restartWait(f *flow, kept uint32, stamp clock.Stamp) {
	if !f.rewait(stamp) && e.state.move(live, kept, 0) && f.rewait(stamp) {
		e.state.drop(kept)
	}
}
