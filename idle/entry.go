package idle

import (
	"sync/atomic"
	"unsafe"

	"github.com/idlewheel/idlewheel/wheel"
)

// An entry is what a connection notes of its activities, which is all that its limits
// are computed from, and where in the wheel it is. Activities write the words, and the
// shard reads them, without a lock:
//
//   - Whoever makes a deadline later does so before what makes it count. The
//     phase, by which new limits count, is stored last when one is entered; a pause
//     is paid for before the wait that ends it is noted.
//   - The shard reads in the opposite order (snapshot). So what it computes is
//     at worst a deadline that was true a moment ago, never one that is too early.
type entry struct {
	in, out flow

	born   atomic.Uint32 // when the first limit of age began to count
	began  atomic.Uint32 // when the present phase was entered
	beat   atomic.Uint32 // the last beat, of a passive heartbeat
	pinged atomic.Uint32 // the last ping, or when a heartbeat was last begun anew

	placed atomic.Uint32 // the deadline for which the timer was scheduled
	state  state

	timer wheel.Timer
	phase atomic.Pointer[Phase]
}

// start sets all words of a connection that begins to be tracked: reads wait,
// writes do not.
func (e *entry) start(stamp uint32) {
	for _, s := range []*atomic.Uint32{&e.born, &e.began, &e.beat, &e.pinged, &e.in.stamp, &e.out.stamp} {
		s.Store(stamp)
	}
	e.in.wait.Store(stamp<<1 | waiting)
	e.out.wait.Store(stamp << 1)
}

// refresh keeps all stamps from growing older than they can tell.
func (e *entry) refresh(now int64) {
	oldest := uint32(now - 2*maxTicks)
	for _, s := range [...]*atomic.Uint32{&e.born, &e.began, &e.beat, &e.pinged, &e.in.stamp, &e.out.stamp} {
		raise(s, oldest)
	}
	e.in.refresh(oldest)
	e.out.refresh(oldest)
}

// look returns the next deadline of e under p, which must have been loaded before.
func (e *entry) look(p *Phase, m moment) deadline {
	s := snapshot{moment: m}
	e.snapshot(&s)
	return next(&s, p.limits)
}

// next returns the next deadline of e.
func (e *entry) next(m moment) deadline { return e.look(e.phase.Load(), m) }

// seed differs between connections, and between trackings of the same one.
func (e *entry) seed(state uint32) uint32 {
	return uint32(uintptr(unsafe.Pointer(e))>>4) + state/genUnit
}

// snapshot reads the words of a connection at the moment of s. The phase must have
// been loaded before, so that the words are those of that phase or of a later one.
// The order is that of the model: what makes a deadline count comes before what makes
// it later.
func (e *entry) snapshot(s *snapshot) {
	s.state = e.state.Load()
	s.seed = e.seed(s.state)
	inWait, outWait := e.in.wait.Load(), e.out.wait.Load()
	s.pinged = s.tick(e.pinged.Load())
	s.in.last, s.out.last = s.tick(e.in.stamp.Load()), s.tick(e.out.stamp.Load())
	s.in.setWait(s.moment.now, inWait, e.in.paid.Load())
	s.out.setWait(s.moment.now, outWait, e.out.paid.Load())
	s.began, s.beat, s.born = s.tick(e.began.Load()), s.tick(e.beat.Load()), s.tick(e.born.Load())
}

// direction returns what matters of the present phase to a flow of e.
func (e *entry) direction(f *flow) *direction {
	p := e.phase.Load()
	if f == &e.out {
		return &p.out
	}
	return &p.in
}

// restart begins a limit anew, and as far as can be no other: at the given stamp.
func (e *entry) restart(t *terms, stamp uint32, k *clock) {
	switch t.counts {
	case ofActivity:
		raise(&e.out.stamp, stamp) // besides, only a write that waits looks at it
	case ofRead:
		e.in.rewait(stamp)
	case ofWrite:
		e.out.rewait(stamp)
	case ofReads:
		e.in.letOff(k.instant)
	case ofWrites:
		e.out.letOff(k.instant)
	case ofBeats:
		raise(&e.pinged, stamp) // not beat, by which a Beat of this tick would know itself
		e.state.set(0, unanswered|missMask)
	case ofPhase:
		raise(&e.began, stamp)
	case ofLife:
		raise(&e.born, stamp)
		e.state.set(0, draining)
	}
}
