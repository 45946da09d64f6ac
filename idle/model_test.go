package idle

import "strings"

// This is a model of the protocol by which a connection is used, timed out,
// closed and tracked anew, small enough to try all interleavings. Each step of
// its threads is one access to a word of the real Conn, in the real order; see
// modelcheck_test.go for what is tried and what must hold.
//
// Deliberate flaws leave out or swap a step. They are named where they are.

// memory is what the threads share, and what is true of it.
type memory struct {
	now int8 // the clock, which nobody's copy is behind

	// The words of a Conn, with one flow.
	state             modelState
	phase             int8
	stamp, paid, beat int8
	wait              modelWait
	placed            int8
	pending           bool

	locked bool // the shard
	mutex  bool // the owner's reader's, whose being held is its answer to Waiting

	truth    truth
	outcomes [3]int8 // of each generation
	fault    string
}

type modelState struct {
	gen                   int8
	live, expired, asking bool
}

type modelWait struct {
	since int8
	on    bool
}

// truth is what was done to the connection, noted in the same step in which a
// method does the last of what it does.
type truth struct {
	phase, began, last, since, paid int8
	waiting                         bool
	unmarked                        bool // a read holds the mutex, and has not said so
}

// registers are a thread's own.
type registers struct {
	gen                      int8
	now, at                  int8
	state                    modelState
	phase, stamp, paid, beat int8
	wait, was                modelWait
	reason, suspected        int8
	then                     uint8 // what was truly due while it last looked
	examined                 uint8
	going, counts, window    bool
	placed                   int8
}

// Reasons of the model, in the order in which ties are decided, and limits.
const (
	byIdle = int8(1 + iota)
	byRead
	byRate
	byPhase
)

type modelLimits struct{ idle, read, rate, whole int8 }

var modelPhases = []modelLimits{
	{},
	{idle: 2},
	{idle: 1},
	{read: 2},
	{rate: 2},
	{whole: 2},
	{read: 2, rate: 2},
	{read: 3, idle: 3},
}

const far = int8(100)

// modelDeadline returns when which limit is passed, given what was read, or is true.
func modelDeadline(phase, stamp int8, wait modelWait, paid, beat int8) (at, reason int8) {
	p := modelPhases[phase]
	at = far
	limit := func(timeout, from, r int8) {
		if timeout > 0 && from+1+timeout < at {
			at, reason = from+1+timeout, r
		}
	}
	limit(p.idle, stamp, byIdle)
	if wait.on {
		limit(p.read, max(stamp, wait.since), byRead)
		limit(p.rate, paid, byRate)
	}
	limit(p.whole, beat, byPhase)
	return at, reason
}

// due returns which limits are truly passed at the given tick, as bits. A wait
// that a Waiter was asked about counts although it has ended since, if nothing
// has arrived.
func (m *memory) due(now int8, going bool) (all uint8) {
	t, p := m.truth, modelPhases[m.truth.phase]
	passed := func(timeout, from, r int8) {
		if timeout > 0 && from+1+timeout <= now {
			all |= 1 << r
		}
	}
	passed(p.idle, t.last, byIdle)
	if t.waiting || going {
		passed(p.read, max(t.last, t.since), byRead)
		passed(p.rate, t.paid, byRate)
	}
	passed(p.whole, t.began, byPhase)
	return all
}

func has(flaw, what string) bool { return strings.Contains(flaw, what) }

// look adds the steps of next, in its order: what makes a deadline count is
// read before what makes it later. The flaws read in another order.
func (t *thread) look(name string, flaw string, then func(*memory, *registers) string) {
	steps := []threadStep{
		{"clock", func(m *memory, r *registers) string { r.now = m.now; return "" }},
		{"phase", func(m *memory, r *registers) string { r.phase = m.phase; return "" }},
		{"wait", func(m *memory, r *registers) string { r.wait = m.wait; return "" }},
		{"stamp", func(m *memory, r *registers) string { r.stamp = m.stamp; return "" }},
		{"paid", func(m *memory, r *registers) string { r.paid = m.paid; return "" }},
		{"beat", func(m *memory, r *registers) string { r.beat = m.beat; return "" }},
	}
	swap := func(i, j int) { steps[i], steps[j] = steps[j], steps[i] }
	switch {
	case has(flaw, "next reads the clock last"):
		swap(0, 5)
	case has(flaw, "next reads the phase last"):
		swap(1, 5)
	case has(flaw, "next reads the stamp before the phase"):
		swap(1, 3)
	case has(flaw, "next reads what is paid before the wait"):
		swap(2, 4)
	}
	for i, s := range steps {
		t.step(name+" "+s.name, func(m *memory, r *registers) string {
			if i == 0 {
				r.then = 0
			}
			s.do(m, r)
			at := m.now
			if steps[0].name == "clock" {
				at = r.now
			}
			r.then |= m.due(at, r.counts)
			if i < len(steps)-1 {
				return ""
			}
			r.at, r.reason = modelDeadline(r.phase, r.stamp, r.wait, r.paid, r.beat)
			if r.at > r.now {
				r.reason = 0
			}
			return then(m, r)
		})
	}
}

// move adds the steps of state.move: next, if the generation still is r.gen,
// goes to otherwise.
func (t *thread) move(name, otherwise string, flaw string, change func(*modelState), then func(*memory, *registers) string) {
	t.step(name+" load", func(m *memory, r *registers) string {
		r.state = m.state
		sameGen := r.state.gen == r.gen || has(flaw, "a verdict ignores the generation")
		if !sameGen || !r.state.live {
			return otherwise
		}
		return ""
	})
	t.step(name+" swap", func(m *memory, r *registers) string {
		if m.state != r.state && !has(flaw, "a verdict stores instead of swapping") {
			return name + " load"
		}
		m.state = r.state
		change(&m.state)
		return then(m, r)
	})
}

func goOn(*memory, *registers) string { return "" }

func (t *thread) goTo(label string) {
	t.step("to "+label, func(*memory, *registers) string { return label })
}

// lock and unlock are the shard's.
func (t *thread) lock(name string) {
	t.step(name+" lock", func(m *memory, _ *registers) string {
		if m.locked {
			return blocked
		}
		m.locked = true
		return ""
	})
}

func (t *thread) unlock(name, to string) {
	t.step(name+" unlock", func(m *memory, _ *registers) string { m.locked = false; return to })
}

// place adds the steps of Shard.place; the lock is held.
func (t *thread) place(name, flaw string) {
	t.look(name, flaw, func(m *memory, r *registers) string { return "" })
	t.step(name+" schedule", func(m *memory, r *registers) string {
		m.placed, m.pending, r.placed = r.at, true, r.at
		if has(flaw, "place does not look again") {
			return name + " placed"
		}
		return ""
	})
	t.look(name+" again", flaw, func(m *memory, r *registers) string {
		if r.at < r.placed {
			return name + " schedule"
		}
		return ""
	})
	t.step(name+" placed", goOn)
}

// pull adds the steps of hasten: if c is placed later than r.at, it is placed
// anew.
func (t *thread) pull(name, flaw string) {
	t.step(name+" hasten", func(m *memory, r *registers) string {
		if m.placed <= r.at {
			return name + " pulled"
		}
		return ""
	})
	t.lock(name)
	t.step(name+" pending", func(m *memory, r *registers) string {
		if !m.state.live || !m.pending {
			return name + " unlock"
		}
		return ""
	})
	t.place(name+" place", flaw)
	t.unlock(name, "")
	t.step(name+" pulled", goOn)
}
