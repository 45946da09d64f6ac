package model

import "slices"

// This is a model of the protocol by which a connection is used, timed out and
// closed, small enough to try all interleavings. Each step of
// its threads is one access to a word of the real Conn, in the real order. The
// threads that use a connection are in threads_test.go and
// life_test.go, the one that times it out is in judge_test.go. Its
// deadlines follow from its words as words_test.go says. What is tried is in
// scenarios_test.go, what must hold in check_test.go.
//
// Some operations are a loop in the code that ends with a compare-and-swap:
// raising a word, which moves it forward and never back, and setting or clearing
// bits of the state. They are one step here, as their failed attempts have no
// effect.
//
// Deliberate flaws leave out or swap a step. They are named where they are.

// memory is what the threads share, and what is true of it.
type memory struct {
	now int8 // the clock, which nobody's copy is behind

	modelWords
	placed  int8
	pending bool

	locked bool // the shard
	kernel modelEvidence

	otherSlow bool // the rate of the flow that isn't in the model looks missed

	// A phase, the limits that replace its own once there are any, since when they count, and whether SetPolicy has returned.
	replaced, by, since int8
	settled             bool

	// truth is what was done to the connection, noted in the same step in which a
	// method does the last of what it does.
	truth    modelWords
	answers  bool // a byte was delivered, so the wait for it must not end the connection
	outcomes int8
	fault    string
}

// in returns the limits that are in force in a phase, and since when those count that were not before.
func (m *memory) in(phase int8) (limits, from int8) {
	if phase == m.replaced && m.by != noPhase {
		return m.by, m.since
	}
	return phase, 0
}

// current returns the words with the limits that are in force.
func (m *memory) current() *modelWords {
	w := m.modelWords
	w.phase, w.from = m.in(m.phase)
	return &w
}

func (m memory) wrong() string { return m.fault }

// A maker makes a thread, which may have a flaw.
type maker func(flaw string) *thread

// A thread uses a connection.
type thread struct{ threadOf[memory, registers] }

type step = threadStep[memory, registers]

func newThread(name string) *thread {
	return &thread{threadOf[memory, registers]{name: name, at: map[string]int{}}}
}

// modelEvidence is what the owner finds out when it examines the connection.
type modelEvidence struct {
	arrived int8 // the tick at which bytes last came, 0 if that is not known
	unread  bool // bytes wait to be read
	empty   bool // there is nothing to wait for
}

// registers are a thread's own.
type registers struct {
	now, at int8
	ended   bool // by the thread
	placed  int8
	state   modelState
	wait    modelWait
	look    modelWords // what next has read so far
	limits  modelLimits
	had     int8 // what was paid before a wait begins
	real    int8 // when a wait really begins or ends
	exact   bool // the flag, as it was loaded

	// The judge's.
	what     int8   // what was due when it last looked, 0 if nothing
	then     uint16 // all that was truly due at some moment of that look, as bits
	examined int8   // the limit that Probe was asked about
	asked    int8   // the limit that OnTimeout was asked about
	askedAt  int8
	by, from int8 // the limits by which it was due
	evidence modelEvidence
	unread   bool // unread bytes have counted, and nothing was read since
}

// verdict adds the steps of one look at what is due. It goes on only if a limit
// is passed: it ends the thread if the connection has ended, and goes to replace
// if nothing is due, or to the ping if that is.
func (t *thread) verdict(name, flaw string) {
	t.look(name, flaw, true, goOn)
	t.step(name+" holds", func(m *memory, r *registers) string {
		switch {
		case !m.state.live && r.asked != 0:
			return "asked"
		case !m.state.live:
			return "end"
		case m.otherSlow:
			return "measure"
		case r.what == 0 || r.what == toPing && r.asked != 0:
			return "replace"
		case r.what == toPing:
			return "ping due"
		case r.what == toMeasure && r.asked == 0:
			return "measure"
		case r.what == toMeasure:
			return "replace"
		}
		return ""
	})
}

// look adds the steps of Shard.look, in its order: what makes a deadline count is
// read before what makes it later. The flaws read in another order.
//
// The clock is left out if only the deadline matters, and not whether it is
// passed. Words from which no limit of the phase counts are left out as well, but
// for the last: when they are read makes no difference.
func (t *thread) look(name, flaw string, clock bool, then func(*memory, *registers) string) {
	steps := []step{
		{name: "clock", do: func(m *memory, r *registers) string { r.now = m.now; return "" }},
		{name: "phase", do: func(m *memory, r *registers) string { r.look.phase, r.look.from = m.in(m.phase); return "" }},
		{name: "state", do: func(m *memory, r *registers) string {
			r.look.state.pinged, r.look.state.exact = m.state.pinged, m.state.exact
			return ""
		}},
		{name: "wait", do: func(m *memory, r *registers) string { r.look.wait = m.wait; return "" }},
		{name: "pinged", do: func(m *memory, r *registers) string { r.look.pinged = m.pinged; return "" }},
		{name: "stamp", do: func(m *memory, r *registers) string { r.look.stamp = m.stamp; return "" }},
		{name: "used", do: func(m *memory, r *registers) string { r.look.used = m.used; return "" }},
		{name: "unread", do: func(m *memory, r *registers) string { r.look.unread = m.unread; return "" }},
		{name: "paid", do: func(m *memory, r *registers) string { r.look.paid = m.paid; return "" }},
		{name: "began", do: func(m *memory, r *registers) string { r.look.began = m.began; return "" }},
		{name: "beat", do: func(m *memory, r *registers) string { r.look.beat = m.beat; return "" }},
	}
	last := len(steps) - 1
	swap := func(i, j int) { steps[i], steps[j] = steps[j], steps[i] }
	switch flaw {
	case "next reads the clock last":
		swap(0, last)
	case "next reads the phase last":
		swap(1, last)
	case "next reads the state last":
		swap(2, last)
	case "next reads the use before the phase":
		swap(1, 6)
	case "next reads the input before the ping":
		swap(4, 5)
	case "next reads what is paid before the wait":
		swap(3, 8)
	}
	if !clock {
		steps = slices.DeleteFunc(steps, func(s step) bool { return s.name == "clock" })
		last--
	}
	phaseAt := slices.IndexFunc(steps, func(s step) bool { return s.name == "phase" })
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
			r.then |= m.due(at)
			for j := i + 1; j <= last; j++ {
				if i < phaseAt || j == last || modelPhases[r.look.phase].countsFrom(steps[j].name) {
					return name + " " + steps[j].name
				}
			}
			if r.at, r.what = r.look.next(); r.at > r.now {
				r.what = 0
			}
			r.by, r.from = r.look.phase, r.look.from
			r.look = modelWords{} // not needed any more: fewer states
			return then(m, r)
		})
	}
}

// move adds the steps of state.move. They go to otherwise unless the
// connection is live, and may allows the change.
func (t *thread) move(name, otherwise, flaw string, may func(modelState) bool, change func(*modelState), then func(*memory, *registers) string) {
	t.step(name+" load", func(m *memory, r *registers) string {
		r.state = m.state
		if !r.state.live && flaw != "an end does not look" || !may(r.state) {
			return otherwise
		}
		return ""
	})
	t.step(name+" swap", func(m *memory, r *registers) string {
		if m.state != r.state && flaw != "a verdict stores instead of swapping" {
			return name + " load"
		}
		m.state = r.state
		change(&m.state)
		r.state = modelState{}
		return then(m, r)
	})
}

func always(modelState) bool { return true }

func goOn(*memory, *registers) string { return "" }

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
	t.look(name, flaw, false, goOn)
	t.placeAt(name, flaw)
}

// placeAt is place for a deadline that is known.
func (t *thread) placeAt(name, flaw string) {
	t.step(name+" schedule", func(m *memory, r *registers) string {
		m.placed, m.pending, r.placed = r.at, true, r.at
		if flaw == "place does not look again" {
			return name + " placed"
		}
		return ""
	})
	t.look(name+" again", flaw, false, func(m *memory, r *registers) string {
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
	t.jump(name+" hasten", name+" pulled", func(m *memory, r *registers) bool { return m.placed <= r.at })
	t.lock(name)
	t.bringForward(name, flaw)
	t.unlock(name, "")
	t.step(name+" pulled", goOn)
}

// bringForward adds the steps of Shard.bringForward. The lock is held.
func (t *thread) bringForward(name, flaw string) {
	t.jump(name+" pending", name+" unlock", func(m *memory, _ *registers) bool { return !m.state.live || !m.pending })
	t.look(name+" look", flaw, false, goOn)
	t.jump(name+" placed", name+" unlock", func(m *memory, r *registers) bool { return m.placed <= r.at })
	t.placeAt(name+" place", flaw)
}
