package model

// The thread of the model that decides who is timed out.

// An owner is what the judge may ask, and what it answers.
type modelOwner struct {
	examines    bool // has Probe
	asked, keep bool // has OnTimeout, and answers yes
}

// judging is Shard.check, of a connection that a pass has in hand:
// mark, verdict, examine, verdict, ask, mark, verdict, end. Each verdict may find that the
// connection is to be replaced instead. A reader that delivers a byte meanwhile takes the
// mark back, see deliver.
func judging(o modelOwner) maker {
	return func(flaw string) *thread {
		t := newThread("judge")
		if flaw != "an end is marked after the last look" {
			t.mark("mark", "look clock", flaw)
		}
		t.verdict("look", flaw)
		if o.examines {
			t.examine("examine", flaw)
			if flaw != "Examine has the last word" {
				t.verdict("look after examine", flaw)
			}
			if flaw != "a limit that nobody examined ends it" {
				t.same("examined", func(r *registers) int8 { return r.examined })
			}
		}
		if o.asked {
			t.ask(flaw, o)
		}
		if flaw == "an end is marked after the last look" {
			t.mark("mark late", "asked", flaw)
		}
		isMarked := func(s modelState) bool {
			return s.ending || flaw == "an end does not need its mark" || flaw == "an end does not look"
		}
		t.end("expire", "replace", flaw, true, isMarked, func(m *memory, r *registers) {
			switch {
			case o.examines && r.examined != r.what:
				m.fault = "timed out for a limit that nobody has examined"
			case r.then&(1<<r.what) == 0:
				m.fault = "timed out, but the limit was not passed at any moment of the last look"
			case m.settled && r.by == m.replaced:
				m.fault = "ended by a policy that was replaced before SetPolicy returned"
			case m.answers && m.due(r.now)&(1<<r.what) == 0:
				m.fault = "a byte was delivered, and the wait for it ended the connection"
			}
		})
		t.measure(flaw)
		t.ping(flaw)
		t.step("replace", goOn)
		t.lock("replacing")
		t.step("replace holds", func(m *memory, r *registers) string {
			if !m.state.live || m.pending {
				return "replacing unlock"
			}
			m.state.ending, m.state.asking = false, false
			return ""
		})
		t.place("replace place", flaw)
		t.unlock("replacing", "end")
		t.step("asked", goOn)
		return t
	}
}

// mark adds the step that says that the connection may be ending.
func (t *thread) mark(name, otherwise, flaw string) {
	t.move(name, otherwise, flaw, always, func(s *modelState) { s.ending = true }, goOn)
}

// spare adds the step that takes that back.
func (t *thread) spare(name, to string) {
	t.step(name, func(m *memory, r *registers) string {
		m.state.ending = m.state.ending && !m.state.live
		return to
	})
}

// ask adds the steps in which OnTimeout decides. It does nothing else: what it
// might do to the connection the other threads do.
func (t *thread) ask(flaw string, o modelOwner) {
	t.move("ask", "replace", flaw,
		func(s modelState) bool { return !s.asking },
		func(s *modelState) { s.asking, s.ending = true, false },
		func(m *memory, r *registers) string { r.asked = r.what; return "" })
	t.do("asked at", func(m *memory, r *registers) { r.askedAt = m.now })
	t.do("answer", func(m *memory, r *registers) { r.then = m.due(m.now) })
	if o.keep {
		t.do("restart stamp", func(m *memory, r *registers) { r.now = m.now })
		t.restart("restart", flaw)
		t.step("kept", func(*memory, *registers) string { return "replace" })
		return
	}
	t.jump("refused", "asked", func(m *memory, _ *registers) bool { return !m.state.live })
	t.mark("mark after ask", "asked", flaw)
	if flaw == "OnTimeout has the last word" {
		return
	}
	t.verdict("look after ask", flaw)
	t.same("asked", func(r *registers) int8 { return r.asked })
	if o.examines {
		t.jump("late", "expire lock", func(_ *memory, r *registers) bool { return r.now-r.askedAt < 1 })
		t.examine("examine anew", flaw)
		t.verdict("look after examine anew", flaw)
		t.same("examined anew", func(r *registers) int8 { return r.examined })
	}
}

// same adds the step that replaces the connection if another limit is passed than
// the one that the owner was asked about. The slot is due, so the next pass judges
// it by that limit.
func (t *thread) same(name string, about func(*registers) int8) {
	t.jump("the same as "+name, "replace", func(_ *memory, r *registers) bool { return r.what != about(r) })
}

// examine adds the steps of asking Probe, and of taking over what it says.
func (t *thread) examine(name, flaw string) {
	t.do(name, func(m *memory, r *registers) {
		r.examined = r.what
		if r.evidence = m.kernel; r.evidence.arrived > 0 {
			r.evidence.arrived -= m.now // relative, as the owner says it
		}
		r.then = m.due(m.now)
	})
	t.step(name+" clock", func(m *memory, r *registers) string {
		r.now = m.now
		switch {
		case !m.state.live:
			return name + " done"
		case m.kernel.arrived == 0:
			return name + " empty"
		}
		return ""
	})
	t.do(name+" bytes", func(m *memory, r *registers) {
		at := r.now + min(r.evidence.arrived, -1)
		if raiseTo(&m.stamp, at); flaw == "evidence stores instead of raising" {
			m.stamp = at
		}
		raiseTo(&m.truth.stamp, at)
	})
	t.jump(name+" empty", name+" limits", func(_ *memory, r *registers) bool { return !r.evidence.empty })
	t.rewait(name+" empty", name+" empty let off", flaw)
	t.step(name+" empty let off", goOn)
	t.letOff(name+" empty", flaw)
	t.jump(name+" limits", name+" done", func(_ *memory, r *registers) bool { return !r.evidence.unread })
	t.do(name+" has counted", func(m *memory, r *registers) { r.placed = m.unread })
	t.do(name+" read", func(m *memory, r *registers) { r.unread = r.placed > m.stamp })
	t.step(name+" began", func(m *memory, r *registers) string {
		has := r.unread && r.placed > m.began
		if r.placed, r.unread = 0, false; has {
			return name + " done"
		}
		return ""
	})
	t.do(name+" unread", func(m *memory, r *registers) {
		raiseTo(&m.unread, r.now-1)
		raiseTo(&m.truth.unread, r.now-1)
	})
	t.do(name+" done", func(m *memory, r *registers) { r.evidence = modelEvidence{} })
}

// restart adds the steps of Conn.keep: the limit that r.what names counts from r.now.
func (t *thread) restart(name, flaw string) {
	raise := func(step string, of func(*modelWords) *int8) {
		t.step(name+step, func(m *memory, r *registers) string {
			raiseTo(of(&m.modelWords), r.now)
			raiseTo(of(&m.truth), r.now)
			if step == " beats" {
				return name + " pinged"
			}
			return name + " done"
		})
	}
	t.step(name+" limit", func(m *memory, r *registers) string {
		return map[int8]string{byRead: name + " wait load", byRate: name + " pays", byBeat: name + " beats", byPhase: name + " whole"}[r.what]
	})
	raise("", func(w *modelWords) *int8 { return &w.used })
	raise(" beats", func(w *modelWords) *int8 { return &w.beat })
	t.step(name+" pinged", func(m *memory, r *registers) string {
		raiseTo(&m.pinged, r.now)
		raiseTo(&m.truth.pinged, r.now)
		return name + " done"
	})
	raise(" whole", func(w *modelWords) *int8 { return &w.began })
	t.rewait(name, name+" done", flaw)
	t.letOff(name, flaw)
	t.do(name+" kept", func(m *memory, r *registers) { r.wait = modelWait{} })
}

// rewait adds the steps of flow.rewait.
func (t *thread) rewait(name, to, flaw string) {
	t.step(name+" wait load", func(m *memory, r *registers) string {
		if r.wait = m.wait; !r.wait.on || r.wait.since >= r.now {
			return to
		}
		return ""
	})
	t.step(name+" wait swap", func(m *memory, r *registers) string {
		if m.wait != r.wait && flaw != "restart stores the wait" {
			return name + " wait load"
		}
		m.wait = modelWait{since: r.now, on: true}
		raiseTo(&m.truth.wait.since, r.now)
		return to
	})
}

// letOff adds the steps of Conn.letOff. Of a pause beside it more may be paid for.
func (t *thread) letOff(name, flaw string) {
	t.do(name+" pays", func(m *memory, r *registers) { r.had = m.paid })
	t.do(name+" wait load for it", func(m *memory, r *registers) { r.wait = m.wait })
	t.step(name+" clock", func(m *memory, r *registers) string {
		if r.now = m.now; !r.wait.on {
			r.now = r.wait.since
		}
		if flaw == "letOff moves nothing if nothing is to be paid" && r.had >= r.now {
			return name + " done"
		}
		return ""
	})
	t.step(name+" move", func(m *memory, r *registers) string {
		if m.wait != r.wait {
			return name + " pays"
		}
		if flaw != "letOff does not move the pause" || r.wait.on {
			m.wait.moved++
			m.truth.wait.moved++
		}
		if r.had >= r.now {
			return name + " done"
		}
		return ""
	})
	t.step(name+" paid", func(m *memory, r *registers) string {
		if m.paid != r.had {
			return name + " pays"
		}
		m.paid = r.now
		raiseTo(&m.truth.paid, r.now)
		return ""
	})
	t.do(name+" done", func(m *memory, r *registers) { r.wait, r.had = modelWait{}, 0 })
}

// ping adds the steps of an active heartbeat's ping. It counts from the look that found it due. If a phase was entered
// since, its answer isn't awaited.
func (t *thread) ping(flaw string) {
	t.do("ping due", func(m *memory, r *registers) {
		if r.then&(1<<toPing) == 0 {
			m.fault = "pinged, but that was not due at any moment of the last look"
		}
	})
	t.jump("ping before", "replace", func(m *memory, r *registers) bool {
		return m.pinged >= r.now && flaw != "a ping counts from when it is sent"
	})
	t.do("ping raise", func(m *memory, r *registers) {
		raiseTo(&m.truth.pinged, r.now)
		if flaw == "a ping counts from when it is sent" {
			r.now = m.now
		}
		raiseTo(&m.pinged, r.now)
		if flaw == "a ping moves the beginning of the phase" {
			raiseTo(&m.began, m.now)
		}
	})
	t.move("ping mark", "replace", flaw, always, func(s *modelState) { s.pinged = true },
		func(m *memory, r *registers) string {
			m.truth.state.pinged = true
			return ""
		})
}

// measure adds the steps of Shard.measure. Truly, waits count exactly if they begin after it.
func (t *thread) measure(flaw string) {
	t.step("measure", goOn)
	set := func() {
		t.move("measure sets", "measures", flaw, func(s modelState) bool { return !s.exact }, func(s *modelState) { s.exact = true },
			goOn)
		t.step("measures", goOn)
	}
	if flaw != "measure lets off before it is exact" {
		set()
	}
	t.letOff("measure", flaw)
	if flaw == "measure lets off before it is exact" {
		set()
	}
	t.step("measured", func(m *memory, r *registers) string { m.truth.state.exact = m.state.live; return "replace" })
}

// end adds the steps of Shard.end. A limit ends it only if it's one of those in force.
func (t *thread) end(name, otherwise, flaw string, byLimit bool, may func(modelState) bool, check func(*memory, *registers)) {
	t.lock(name)
	if byLimit {
		t.step(name+" limits", func(m *memory, r *registers) string {
			if p, from := m.in(m.phase); (p != r.by || from != r.from) && flaw != "an end does not compare the limits" {
				return name + " unlock"
			}
			return ""
		})
	}
	t.move(name+" move", name+" unlock", flaw, may, func(s *modelState) { s.live, s.ending = false, true },
		func(m *memory, r *registers) string {
			m.outcomes++
			r.ended = true
			check(m, r)
			return ""
		})
	t.do(name+" cancel", func(m *memory, r *registers) {
		if flaw != "an order leaves the connection in the wheel" {
			m.pending = false
		}
	})
	t.step(name+" unlock", func(m *memory, r *registers) string {
		switch m.locked = false; {
		case r.ended && r.asked != 0:
			return "asked"
		case r.ended:
			return "end"
		}
		return otherwise
	})
}
