package wheel

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
