package model

// The threads of the model that replace a policy, and have a connection follow.

// latest returns the present version of a phase.
func (m *memory) latest(phase int8) int8 {
	if phase == m.replaced && m.by != noPhase {
		return m.by
	}
	return phase
}

// replacing is Phase.SetPolicy, and then the visit that it begins: see renewed. What the new version limits and the old one has not noted is to count from
// the Replace at the earliest.
func replacing(flaw string, by int8) *thread {
	t := newThread("replacer")
	t.step("replace", func(m *memory, r *registers) string {
		m.by = by
		if tr := &m.truth; tr.phase == m.replaced {
			tr.phase, tr.state.overdue = by, false
			if raiseTo(&tr.paid, m.now); !tr.wait.on {
				raiseTo(&tr.wait.since, m.now)
			}
			raiseTo(&m.letOff, m.now)
		}
		return ""
	})
	t.lock("visit")
	t.step("visit holds", func(m *memory, r *registers) string {
		if !m.state.live || !m.pending && flaw != "a visit moves what a pass has in hand to the new version" {
			return "visit unlock"
		}
		return ""
	}).begin("idle.renewed").does("<phase <state")
	t.follow("visit follow", flaw)
	if flaw != "a visit does not place" {
		t.look("visit look", flaw, false, goOn)
		t.step("visit placed", func(m *memory, r *registers) string {
			if !m.pending || m.placed <= r.at {
				return "visit unlock"
			}
			return ""
		}).does("<placed")
		t.place("visit place", flaw)
	}
	t.unlock("visit", "")
	return t
}

// follow adds the steps of entry.follow. Bytes that pay in advance are not modelled, so
// neither is that this is taken back.
func (t *thread) follow(name, flaw string) {
	early := flaw == "the phase is stored before waits are let off"
	t.step(name+" phase", func(m *memory, r *registers) string { r.old = m.phase; return "" }).does("<phase")
	t.step(name+" latest", func(m *memory, r *registers) string {
		r.version = m.latest(r.old)
		switch was, is := modelPhases[r.old], modelPhases[r.version]; {
		case r.version == r.old:
			return name + " followed"
		case is.rate > 0 && was.rate == 0 && flaw != "what was not noted counts":
			return ""
		}
		return name + " swap"
	})
	if early {
		t.step(name+" store", func(m *memory, r *registers) string {
			if m.phase == r.old {
				m.phase = r.version
			}
			return ""
		})
	}
	notOverdue := func(m *memory) {
		m.state.overdue = m.state.overdue && flaw == "a replaced policy leaves a read overdue"
	}
	t.step(name+" not overdue", func(m *memory, _ *registers) string { notOverdue(m); return "" }).
		does("<in.paid <state +state").changes("reads-anew")
	t.step(name+" clock", func(m *memory, r *registers) string { r.was, r.now = r.now, m.now; return "" })
	t.letOff(name, flaw, func(*memory, *registers) {})
	t.step(name+" let off", func(m *memory, r *registers) string { notOverdue(m); r.now, r.was = r.was, 0; return "" }).
		does("<state +state").changes("reads-anew")
	t.step(name+" swap", func(m *memory, r *registers) string {
		if m.phase == r.old {
			m.phase = r.version
		}
		return name + " phase"
	}).does("?phase")
	t.step(name+" followed", func(m *memory, r *registers) string { r.old, r.version, r.at = noPhase, noPhase, 0; return "" })
}

// replaceable is the same connection, whose phase may be replaced.
func (m memory) replaceable(phase int8) memory {
	m.replaced = phase
	return m
}

var followingOwner = modelOwner{follows: true}

// followScenarios are those in which a policy is replaced.
var followScenarios = []scenario{{
	name:   "touch against a replaced policy",
	memory: tracked(idlePhase, 3, false).touchedAt(3).placedAt(6).replaceable(idlePhase),
	threads: func(flaw string) []*thread {
		return []*thread{replacing(flaw, shortIdlePhase), touching(1), ticking(2)}
	},
	flaws: []string{"a visit does not place"},
}, {
	name:   "await against a replaced policy",
	memory: tracked(idlePhase, 4, false).touchedAt(4).pausedAt(3).placedAt(7).replaceable(idlePhase),
	threads: func(flaw string) []*thread {
		return []*thread{replacing(flaw, ratePhase), awaiting(flaw), ticking(2)}
	},
	flaws: []string{"what was not noted counts", "letOff looks at the clock once"},
	late:  letOffLate,
}, {
	name:   "await against expiry by a policy that is replaced",
	memory: tracked(idlePhase, 5, false).touchedAt(4).pausedAt(2).replaceable(idlePhase),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, followingOwner), replacing(flaw, ratePhase), awaiting(flaw), ticking(1)}
	},
	flaws: []string{
		"what was not noted counts", "what was in hand is placed by an older version",
		"a visit moves what a pass has in hand to the new version",
	},
	late:  letOffLate,
	large: true,
}, {
	name:   "pause against expiry by a policy that is replaced",
	memory: tracked(idlePhase, 5, true).touchedAt(4).replaceable(idlePhase),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, followingOwner), replacing(flaw, ratePhase), pausing(), ticking(1)}
	},
	flaws: []string{"what was not noted counts"},
}, {
	name:   "a read that is overdue, against a policy that is replaced",
	memory: tracked(idlePhase, 5, true).touchedAt(5).overdue().placedAt(8).replaceable(idlePhase),
	threads: func(flaw string) []*thread {
		return []*thread{replacing(flaw, ratePhase), pausing(), ticking(4)}
	},
	flaws: []string{"a replaced policy leaves a read overdue"},
}, {
	name:   "enter another phase against expiry by a policy that is replaced",
	memory: tracked(idlePhase, 5, true).touchedAt(4).replaceable(idlePhase),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, followingOwner), enteringVersions(flaw, wholePhase, true), replacing(flaw, ratePhase), ticking(1)}
	},
	flaws: []string{"the phase is stored before waits are let off"},
	large: true,
}, {
	name:   "enter a phase that is replaced",
	memory: tracked(wholePhase, 2, false).placedAt(4).replaceable(idlePhase),
	threads: func(flaw string) []*thread {
		return []*thread{enteringVersions(flaw, idlePhase, true), replacing(flaw, shortIdlePhase), touching(1), ticking(1)}
	},
	flaws: []string{"enter stays in an older version"},
}, {
	name:   "enter against expiry by a policy that is replaced",
	memory: tracked(idlePhase, 3, false).replaceable(idlePhase),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, followingOwner), enteringVersions(flaw, idlePhase, true), replacing(flaw, shortIdlePhase), ticking(1)}
	},
	flaws: []string{"enter stays in an older version"},
	large: true,
}}
