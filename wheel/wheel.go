// Package wheel is a hierarchical timing wheel: the data structure alone, with
// no clock, no goroutine and no lock.
//
// Ground rules:
//
//   - Time is a count of ticks, below 2⁶³. How long a tick is, and where tick 0
//     lies, is the owner's business.
//   - The owner supplies the memory: it embeds a [Timer] in what it wants to
//     time. After construction nothing here allocates.
//   - A level has 64 slots, and a slot of level n covers 8ⁿ ticks. A timer lies
//     in the lowest level that reaches as far as its tick, so its slot comes up
//     exactly then if that is near, and too early by less than an eighth of the
//     distance if it is far.
//   - A Timer does not remember its deadline. When its slot comes up, at
//     whatever level, [Wheel.Pop] hands it out, and the owner looks at the
//     deadline as it is by then: reached, or to be scheduled again. A deadline
//     that only ever moves later therefore needs no call at all in between.
//   - Nobody is called back. Between two Pops the owner may schedule and cancel
//     anything, the popped timer and its neighbours included.
//
// The usual loop, for a timer that is the first field of its owner:
//
//	w.Advance(now)
//	for t := w.Pop(); t != nil; t = w.Pop() {
//		task := (*Task)(unsafe.Pointer(t))
//		if task.deadline > now {
//			w.Schedule(t, task.deadline)
//			continue
//		}
//		task.run()
//	}
//
// A Wheel has one owner at a time and is not safe for concurrent use.
//
// The scheme is that of Varghese and Lauck, "Hashed and Hierarchical Timing
// Wheels" (SOSP 1987). A word of occupancy bits a level, as in W. Ahern's
// timeout.c, sees to it that no work is done for empty slots however far time
// jumps; levels that overlap, eight slots of one to one of the next as in
// Linux's kernel/time/timer.c, that not everything far comes up at once.
package wheel

import "math/bits"

const (
	slotBits = 6
	slots    = 1 << slotBits
	stepBits = 3  // a slot covers 2³ of the level below
	levels   = 15 // which reach 2⁴⁸ ticks far: 8,900 years of milliseconds
	top      = levels - 1
)

// Wheel is a set of pending timers. The zero value is an empty wheel at tick 0. It
// must not be copied after first use. Timers more than 2⁴⁸ ticks ahead are kept as
// well, at the price of coming up once in so many.
type Wheel struct {
	now uint64
	len int

	// occupied has a bit for each slot that may hold a timer. A bit that is
	// clear is right; one that is set may be stale, because a timer does not
	// know its slot and so cannot clear the bit when it leaves. first repairs
	// stale bits when it meets them, each at most once per Schedule.
	occupied [levels]uint64
	rings    [levels * slots]Timer

	due  Timer // timers of slots that came up, oldest first, waiting for Pop
	late Timer // scheduled at a tick already past; due at the next Advance
}

// Now returns the tick of the latest Advance.
func (w *Wheel) Now() uint64 { return w.now }

// Len returns how many timers are pending, those waiting for Pop included.
func (w *Wheel) Len() int { return w.len }

// Schedule makes t pending so that Pop returns it at the given tick or before;
// a pending t is moved. It returns when the slot of t comes up. A tick that is
// not after Now comes up at the next Advance. The wheel refers to t until it is
// popped or cancelled.
func (w *Wheel) Schedule(t *Timer, tick uint64) (up uint64) {
	if t.next != nil {
		t.unlink()
	} else {
		w.len++
	}
	ring, up := w.ringFor(tick)
	ring.push(t)
	return up
}

// Cancel makes t not pending and reports whether it was. A timer that waits
// for Pop is pending, and does not come out after Cancel.
func (w *Wheel) Cancel(t *Timer) bool {
	if t.next == nil {
		return false
	}
	t.unlink()
	t.next, t.prev = nil, nil
	w.len--
	return true
}

// Advance moves time to now, and readies for Pop all slots that came up. Its
// cost depends on the number of those slots, at most 64 a level, and not on
// the time passed nor on the number of timers. A now before Now changes
// nothing but readies what was scheduled late.
func (w *Wheel) Advance(now uint64) {
	w.due.take(&w.late)
	for { // w.now stays: slots are told apart by their distance from it
		s, ok := w.first()
		if !ok || s.start > now {
			break
		}
		w.occupied[s.level] &^= 1 << (s.ring % slots)
		w.due.take(&w.rings[s.ring])
	}
	w.now = max(w.now, now)
}

// Pop returns a timer whose slot has come up, no longer pending, or nil when
// there is none. Timers come out in the order in which their slots came up.
// A caller with a limited budget may stop popping at any time; the rest comes
// out first after the next Advance.
func (w *Wheel) Pop() *Timer {
	return w.popFrom(&w.due)
}

// Next returns the tick at which the next timer comes up, if none is scheduled or
// cancelled meanwhile: nothing comes up before it, and there is no need to call
// Advance sooner. It is Now when timers wait for Pop or for the next Advance. false
// means that nothing is pending.
func (w *Wheel) Next() (tick uint64, ok bool) {
	if !w.due.empty() || !w.late.empty() {
		return w.now, true
	}
	s, ok := w.first()
	return s.start, ok
}

// PopAny returns some pending timer, no longer pending, whatever its tick, or
// nil when the wheel is empty. It is for taking back all timers at shutdown.
func (w *Wheel) PopAny() *Timer {
	for _, r := range []*Timer{&w.due, &w.late} {
		if t := w.popFrom(r); t != nil {
			return t
		}
	}
	if s, ok := w.first(); ok {
		return w.popFrom(&w.rings[s.ring])
	}
	return nil
}

func (w *Wheel) popFrom(ring *Timer) *Timer {
	if ring.empty() {
		return nil
	}
	t := ring.next
	w.Cancel(t)
	return t
}

// ringFor returns the ring for a timer at the given tick, marked as occupied,
// and when it comes up.
func (w *Wheel) ringFor(tick uint64) (ring *Timer, up uint64) {
	if tick <= w.now {
		return &w.late, w.now
	}
	level := levelFor(tick - w.now)
	if level > top {
		level = top
		tick = w.now + slots<<(top*stepBits) // as far as the level reaches
	}
	shift := level * stepBits
	slot := tick >> shift % slots
	w.occupied[level] |= 1 << slot
	return &w.rings[level*slots+uint(slot)], tick >> shift << shift
}

// levelFor returns the lowest level that reaches the given number of ticks
// ahead, which is not 0. Level n reaches 64·8ⁿ: its 64 slots after the present
// one, which is empty.
func levelFor(distance uint64) uint {
	if distance < slots {
		return 0
	}
	return (uint(bits.Len64(distance)) - slotBits + stepBits - 1) / stepBits
}

// slot tells where the wheel holds timers: the ring's index in rings, the
// level, and the first tick that the slot covers.
type slot struct {
	ring, level int
	start       uint64
}

// first returns the occupied slot that comes up first, false if there is none.
// Of slots that come up together it is the one of the highest level, whose
// timers were scheduled first.
func (w *Wheel) first() (first slot, ok bool) {
	for level := range w.occupied {
		if w.occupied[level] == 0 {
			continue
		}
		if s, found := w.firstOf(level); found && (!ok || s.start <= first.start) {
			first, ok = s, true
		}
	}
	return first, ok
}

// firstOf is first for one level.
func (w *Wheel) firstOf(level int) (slot, bool) {
	shift := level * stepBits
	present := w.now >> shift
	for w.occupied[level] != 0 {
		after := bits.RotateLeft64(w.occupied[level], -int((present+1)%slots))
		start := present + 1 + uint64(bits.TrailingZeros64(after))
		ring := level*slots + int(start%slots)
		if !w.rings[ring].empty() {
			return slot{ring: ring, level: level, start: start << shift}, true
		}
		w.occupied[level] &^= 1 << (start % slots)
	}
	return slot{}, false
}

// Timer is a place in a [Wheel], to be embedded in whatever is timed. The zero
// value is not pending. A Timer belongs to one wheel while it is pending, and
// must not be copied or freed then.
//
// It costs two pointers. It carries no way back to what it is embedded in:
// make it the first field and convert the pointer, as the example does.
type Timer struct {
	next, prev *Timer // nil when not pending; both set otherwise
}

// Pending reports whether t is scheduled and not yet popped or cancelled.
func (t *Timer) Pending() bool { return t.next != nil }

// A ring is a circular list with a Timer as its sentinel, which is no member.
// The methods below take the sentinel as receiver, but for unlink. A zero
// sentinel is an empty ring.

func (r *Timer) empty() bool { return r.next == nil || r.next == r }

// push appends t, which must be in no ring; its links may hold anything.
func (r *Timer) push(t *Timer) {
	if r.next == nil {
		r.next, r.prev = r, r
	}
	last := r.prev
	t.prev, t.next = last, r
	last.next, r.prev = t, t
}

// unlink takes t, which must be in a ring, out of it and leaves its own links
// as they were.
func (t *Timer) unlink() {
	t.prev.next, t.next.prev = t.next, t.prev
}

// take appends all members of from, which becomes empty.
func (r *Timer) take(from *Timer) {
	if from.empty() {
		return
	}
	if r.next == nil {
		r.next, r.prev = r, r
	}
	first, last := from.next, from.prev
	from.next, from.prev = from, from
	first.prev, r.prev.next = r.prev, first
	last.next, r.prev = r, last
}
