package model

import "slices"

// The threads of the model that change what a connection is.

// entering is Conn.Enter.
func entering(phase int8) maker {
	return func(flaw string) *thread {
		t := newThread("enter")
		t.do("limits", func(m *memory, r *registers) {
			p, _ := m.in(phase)
			r.limits = modelPhases[p]
		})
		t.do("stamp", func(m *memory, r *registers) { r.now = m.now })
		skip := "begin phase"
		if flaw == "enter stores the phase first" {
			skip = "limits again"
		}
		steps := []step{
			{name: "began", do: func(m *memory, r *registers) string { raiseTo(&m.began, r.now); return "" }},
			{name: "used", do: func(m *memory, r *registers) string { raiseTo(&m.used, r.now); return "" }},
			{name: "paid", do: func(m *memory, r *registers) string {
				if r.limits.rate > 0 {
					m.paid = r.now
				}
				return ""
			}},
			{name: "wait load", do: func(m *memory, r *registers) string {
				if r.wait = m.wait; r.wait.since >= r.now || !r.wait.on && r.limits.rate == 0 {
					r.wait = modelWait{}
					return "begin beats"
				}
				return ""
			}},
			{name: "wait swap", do: func(m *memory, r *registers) string {
				if m.wait != r.wait && flaw != "enter stores the wait" {
					return "begin wait load"
				}
				m.wait = modelWait{since: r.now, on: r.wait.on}
				r.wait = modelWait{}
				return ""
			}},
			{name: "beats", do: func(m *memory, r *registers) string {
				if r.limits.beats+r.limits.ping == 0 {
					return skip
				}
				return ""
			}},
			{name: "beat", do: func(m *memory, r *registers) string { raiseTo(&m.beat, r.now); return "" }},
			{name: "pinged", do: func(m *memory, r *registers) string { raiseTo(&m.pinged, r.now); return "" }},
			{name: "state", do: func(m *memory, r *registers) string {
				m.state.pinged, m.truth.state.pinged = false, false
				return ""
			}},
			{name: "phase", do: func(m *memory, r *registers) string { m.phase = phase; return "" }},
		}
		if flaw == "enter stores the phase first" {
			steps = slices.Concat(steps[len(steps)-1:], steps[:len(steps)-1])
		}
		for _, s := range steps {
			t.step("begin "+s.name, func(m *memory, r *registers) string {
				to := s.do(m, r)
				if s.name != "phase" {
					return to
				}
				tr := &m.truth
				tr.phase, tr.from = m.in(phase)
				for _, w := range []*int8{&tr.began, &tr.used} {
					raiseTo(w, r.now)
				}
				if tr.paid = r.now; tr.wait.on { // nothing has been waited for before
					raiseTo(&tr.paid, tr.wait.since)
				}
				if tr.wait.on || r.limits.rate > 0 {
					raiseTo(&tr.wait.since, r.now)
				}
				if r.limits.beats+r.limits.ping > 0 {
					raiseTo(&tr.beat, r.now)
					raiseTo(&tr.pinged, r.now)
				}
				return ""
			})
		}
		t.do("limits again", func(m *memory, r *registers) {
			if flaw != "enter hastens by limits that were replaced" {
				p, _ := m.in(phase)
				r.limits = modelPhases[p]
			}
			r.at = r.limits.soonest(r.now)
		})
		t.pull("pull", flaw)
		t.step("is waiting", func(m *memory, r *registers) string {
			if !m.wait.on {
				return "entered"
			}
			r.at = r.limits.soonestOfWait(r.now)
			return ""
		})
		t.pull("pull a wait", flaw)
		t.jump("counts", "entered", func(_ *memory, r *registers) bool { return r.limits.rate == 0 })
		t.do("paid", func(m *memory, r *registers) { r.at = m.paid })
		t.do("is exact", func(m *memory, r *registers) {
			if r.at += 1 + r.limits.slow; m.state.exact {
				r.at += r.limits.rate - r.limits.slow
			}
		})
		t.pull("pull by what is paid", flaw)
		t.do("entered", func(m *memory, r *registers) { r.at, r.limits = 0, modelLimits{} })
		return t
	}
}

// replacing is Phase.SetPolicy, and the visit that it begins: see awaitEnds and renewed. What the limits before didn't count
// counts from when it was called.
func replacing(by int8) maker {
	return func(flaw string) *thread {
		t := newThread("replacer")
		t.do("call", func(m *memory, r *registers) { r.now = m.now })
		t.do("replace", func(m *memory, r *registers) {
			m.by, m.since = by, r.now
			if flaw == "what was not noted counts" {
				m.since = 0
			}
			if tr := &m.truth; tr.phase == m.replaced {
				tr.phase, tr.from = by, r.now
			}
		})
		t.lock("settle")
		t.do("settled", func(m *memory, r *registers) { m.locked, m.settled = false, true })
		if flaw == "a visit does not place" {
			return t
		}
		t.lock("visit")
		t.bringForward("visit", flaw)
		t.unlock("visit", "")
		return t
	}
}

// closing is Conn.Stop.
func closing(string) *thread {
	t := newThread("closer")
	t.lock("close")
	t.step("close load", func(m *memory, r *registers) string {
		if r.state = m.state; !r.state.live {
			return "close unlock"
		}
		return ""
	})
	t.step("close swap", func(m *memory, r *registers) string {
		if m.state != r.state {
			return "close load"
		}
		m.state = modelState{}
		m.outcomes++
		return ""
	})
	t.do("close cancel", func(m *memory, r *registers) { m.pending = false })
	t.unlock("close", "")
	return t
}

// begunAt returns the words of a connection all of whose limits count from the
// given tick.
func begunAt(phase, tick int8, waits bool) modelWords {
	return modelWords{
		phase: phase, wait: modelWait{since: tick, on: waits}, stamp: tick, used: tick, unread: tick, paid: tick,
		began: tick, beat: tick, pinged: tick,
	}
}
