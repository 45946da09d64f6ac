// Package wheel implements a hierarchical timing wheel. It's only the data structure, without
// a clock, a goroutine or a lock.
//
// Ground rules:
//
//   - Time is a number of ticks, below 2⁶³. The owner decides how long a tick is
//     and when tick 0 was.
//   - The owner provides the memory: it embeds a [Timer] in each thing that it
//     times. Apart from the Wheel itself, nothing is allocated.
//   - There are 15 levels of 64 slots. A slot of level n covers 8ⁿ ticks. It
//     comes up when time reaches the first of them.
//   - A timer goes into the lowest level that reaches its tick. In level 0, its
//     slot comes up exactly at its tick. In higher levels, the slot comes up early,
//     by less than an eighth of the distance. The owner then schedules the timer
//     again, and it moves to a lower level.
//   - A Timer doesn't store its deadline. When its slot comes up, at any level,
//     [Wheel.Pop] returns it. The owner then looks up the current deadline, and
//     either acts or schedules the timer again. So moving a deadline later needs no
//     call.
//   - There are no callbacks. Between two Pops the owner may schedule and cancel
//     any timer, including the one just popped.
//
// The usual loop, if the timer is the first field of a Task:
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
// A Wheel has one owner at a time and isn't safe for concurrent use.
//
// The scheme is that of Varghese and Lauck, "Hashed and Hierarchical Timing
// Wheels" (SOSP 1987), with two additions. Each level has a word of occupancy
// bits, as in W. Ahern's timeout.c, so empty slots cost nothing, even if time
// jumps far. And levels overlap: a slot covers as much as 8 slots of the level below,
// not 64, as in Linux's kernel/time/timer.c. So distant timers don't all come up at
// once.
package wheel

import "math/bits"

const (
	slotBits = 6
	slots    = 1 << slotBits
	stepBits = 3  // a slot covers 2³ slots of the level below
	levels   = 15 // reach 2⁴⁸ ticks: 8,900 years of milliseconds
	top      = levels - 1
)

// Wheel is a set of pending timers. The zero value is an empty wheel at tick 0.
// It must not be copied after first use. A timer more than 2⁴⁸ ticks ahead is
// kept too; its slot comes up once every 2⁴⁸ ticks.
type Wheel struct {
	now uint64
	len int

	// occupied has a bit for each slot. If the bit is clear, the slot is empty. If
	// it's set, the slot may still be empty: a timer doesn't know its slot, so
	// Cancel can't clear the bit. firstOf clears such bits when it finds them, at
	// most one per Schedule.
	occupied [levels]uint64
	rings    [levels * slots]Timer

	// Timers whose slots have come up, oldest first.
	due   Timer // from level 0: their tick has come
	early Timer // from higher levels: most came up before their tick
	turn  uint  // counts the Pops while both lists have timers

	late Timer // timers scheduled for a tick in the past; the next Advance makes them due
}

// Now returns the tick of the latest Advance.
func (w *Wheel) Now() uint64 { return w.now }

// Len returns the number of pending timers, including those waiting for Pop.
func (w *Wheel) Len() int { return w.len }

// Schedule makes t pending, so that Pop returns it at the given tick or earlier.
// If t is already pending it is moved. Schedule returns the tick at which t's
// slot comes up. A timer whose tick isn't after Now comes up at the next
// Advance. The wheel retains t until it is popped or cancelled.
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

// Cancel makes t not pending. It reports whether t was pending. A timer waiting
// for Pop is pending; after Cancel, Pop doesn't return it.
func (w *Wheel) Cancel(t *Timer) bool {
	if t.next == nil {
		return false
	}
	t.unlink()
	t.next, t.prev = nil, nil
	w.len--
	return true
}

// Advance moves time to now, and makes the timers of all slots that have come up
// ready for Pop. Its cost depends on the number of those slots, at most 64 per level,
// and not on the number of timers or the time that has passed. If now is before Now,
// time doesn't change, and only timers that were scheduled late become ready.
func (w *Wheel) Advance(now uint64) {
	w.due.take(&w.late)
	for { // w.now must not change yet, because first measures from it
		s, ok := w.first()
		if !ok || s.start > now {
			break
		}
		w.occupied[s.level] &^= 1 << (s.ring % slots)
		if s.level == 0 {
			w.due.take(&w.rings[s.ring])
		} else {
			w.early.take(&w.rings[s.ring])
		}
	}
	w.now = max(w.now, now)
}

// Pop returns a timer whose slot has come up, or nil if there is none. The timer
// is no longer pending. The caller may stop popping at any time, and go on after the
// next Advance.
//
// While there are both kinds, Pop returns three timers of level 0, which have reached
// their tick, for each one of a higher level, which usually has to be scheduled again.
// So timers that are due come first even if the caller stops early, and the others do
// not starve. Within each kind, the order is that in which the slots came up.
func (w *Wheel) Pop() *Timer {
	if !w.early.empty() {
		if w.turn++; w.turn%4 == 0 || w.due.empty() {
			return w.popFrom(&w.early)
		}
	}
	return w.popFrom(&w.due)
}

// Waits reports whether a timer is ready for Pop.
func (w *Wheel) Waits() bool { return !w.due.empty() || !w.early.empty() }

// Next returns the tick at which the next slot with a timer comes up. The owner
// need not call Advance before, unless it schedules or cancels a timer. Next
// returns Now if a timer is waiting for Pop or for the next Advance. ok is false
// if no timer is pending.
func (w *Wheel) Next() (tick uint64, ok bool) {
	if w.Waits() || !w.late.empty() {
		return w.now, true
	}
	s, ok := w.first()
	return s.start, ok
}

// popFrom removes and returns the first timer of a ring, or nil if the ring is
// empty.
func (w *Wheel) popFrom(ring *Timer) *Timer {
	if ring.empty() {
		return nil
	}
	t := ring.next
	w.Cancel(t)
	return t
}

// ringFor returns the ring for a timer at the given tick, and the tick at which the
// ring's slot comes up. It marks the slot as occupied.
func (w *Wheel) ringFor(tick uint64) (ring *Timer, up uint64) {
	if tick <= w.now {
		return &w.late, w.now
	}
	level := levelFor(tick - w.now)
	if level > top {
		level = top
		tick = w.now + slots<<(top*stepBits) // the farthest tick that the level reaches
	}
	shift := level * stepBits
	slot := tick >> shift % slots
	w.occupied[level] |= 1 << slot
	return &w.rings[level*slots+uint(slot)], tick >> shift << shift
}

// levelFor returns the lowest level that reaches distance ticks ahead. distance
// must not be 0. Level n reaches 64·8ⁿ ticks: its 64 slots follow the current one,
// whose timers have already come up.
func levelFor(distance uint64) uint {
	if distance < slots {
		return 0
	}
	return (uint(bits.Len64(distance)) - slotBits + stepBits - 1) / stepBits
}

// A slot describes a slot: the index of its ring in rings, its level, and the
// first tick that it covers.
type slot struct {
	ring, level int
	start       uint64
}

// first returns the occupied slot that comes up first. ok is false if there is
// none. If several slots come up at the same tick, it returns the one of the highest
// level, because its timers were scheduled first.
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

// firstOf is first for a single level.
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

// Timer is an entry of a [Wheel]. Embed it in the struct that you want to time. The
// zero value isn't pending. While a Timer is pending it belongs to one wheel, and
// must not be copied or freed.
//
// A Timer is two pointers. It has no pointer to the struct that contains it. Make it
// the first field and convert its address, as the example does.
type Timer struct {
	next, prev *Timer // both nil if not pending
}

// Pending reports whether t has been scheduled and hasn't been popped or
// cancelled since.
func (t *Timer) Pending() bool { return t.next != nil }

// A ring is a circular list with a Timer as its sentinel. The receiver of the
// methods below is the sentinel, except in unlink. A zero sentinel is an empty
// ring.

func (r *Timer) empty() bool { return r.next == nil || r.next == r }

// push appends t, which must not be in a ring. The previous values of its links
// are ignored.
func (r *Timer) push(t *Timer) {
	if r.next == nil {
		r.next, r.prev = r, r
	}
	last := r.prev
	t.prev, t.next = last, r
	last.next, r.prev = t, t
}

// unlink removes t from its ring. It doesn't change t's own links.
func (t *Timer) unlink() {
	t.prev.next, t.next.prev = t.next, t.prev
}

// take moves all members of from to the end of r.
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
