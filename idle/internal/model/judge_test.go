package model

// The thread of the model that decides who is timed out.

// An owner is what the judge may ask, and what it answers.
type modelOwner struct {
	examines    bool // has Probe
	asked, keep bool // has OnTimeout, and answers yes
	reaped      bool // has Reap
	follows     bool // its phase may be replaced
}

// judging is Shard.check, of a connection that a pass has in hand:
// mark, verdict, examine, verdict, ask, mark, verdict, end. Each verdict may find that the
// connection is to be replaced instead. A reader that delivers a byte meanwhile takes the
// mark back, see deliver.
func judging(flaw string, o modelOwner) *thread {
	t := newThread("judge")
	t.follows = o.follows
	t.step("check", goOn).begin("Shard.check").does("<state <state")
	if flaw != "an end is marked after the last look" {
		t.mark("mark", "asked", flaw)
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
	t.end("expire", "replace", flaw, o.reaped, isMarked, []string{"expire", "expire-to-reap"}, func(m *memory, r *registers) {
		switch {
		case o.examines && r.examined != r.what:
			m.fault = "timed out for a limit that nobody has examined"
		case r.then&(1<<r.what) == 0:
			m.fault = "timed out, but the limit was not passed at any moment of the last look"
		case m.answers && m.due(r.now)&(1<<r.what) == 0:
			m.fault = "a byte was delivered, and the wait for it ended the connection"
		}
	})
	t.linger(flaw)
	t.ping(flaw)
	t.spare("replace", "")
	t.lock("replacing")
	t.step("replace holds", func(m *memory, r *registers) string {
		if !m.state.live || m.pending {
			return "replacing unlock"
		}
		return ""
	}).does("<state")
	switch {
	case !o.follows:
		t.step("replace follow", goOn).does("<phase")
	case flaw != "what was in hand is placed by an older version":
		t.follow("replace follow", flaw)
	}
	t.place("replace place", flaw)
	t.step("replacing unlock", func(m *memory, r *registers) string {
		switch m.locked = false; {
		case r.pings:
			return "ping call"
		case r.asked != 0:
			return "asked"
		}
		return "end"
	})
	t.step("ping call", func(m *memory, r *registers) string {
		if !m.state.live {
			return "end"
		}
		return ""
	}).does("<state")
	t.step("ping called", func(m *memory, r *registers) string {
		if !m.state.live {
			return "end"
		}
		return ""
	}).begin("Shard.ping.func1").does("<state")
	t.step("ping expects", func(m *memory, r *registers) string { m.state.expects, m.sent = true, true; return "end" }).
		does("<phase ?state").changes("expect")
	t.step("asked", func(m *memory, r *registers) string { m.state.asking = false; return "" }).does("<state +state").changes("asked")
	return t
}

// mark adds the step that says that the connection may be ending.
func (t *thread) mark(name, otherwise, flaw string) {
	t.move(name, otherwise, flaw, always, func(s *modelState) { s.ending = true }, goOn).changes("mark")
}

// spare adds the step that takes that back.
func (t *thread) spare(name, to string) {
	t.step(name, func(m *memory, r *registers) string {
		m.state.ending = m.state.ending && !m.state.live
		return to
	}).does("<state +state").changes("spare")
}

// ask adds the steps in which OnTimeout decides. It does nothing else: what it
// might do to the connection the other threads do.
func (t *thread) ask(flaw string, o modelOwner) {
	t.move("ask", "replace", flaw,
		func(s modelState) bool { return !s.asking },
		func(s *modelState) { s.asking, s.ending = true, false },
		func(m *memory, r *registers) string { r.asked = r.what; return "" }).changes("ask")
	t.step("asked at", func(m *memory, r *registers) string { r.askedAt = m.now; return "" }).begin("Shard.ask.func1").does("<state")
	t.step("answer", func(m *memory, r *registers) string { r.then = m.due(m.now); return "" }).begin("Shard.ask.func2")
	if o.keep {
		// The answer is as good as activity. It raises the stamp as well, so that a
		// Touch in this tick would not take back the grant.
		t.move("answered", "asked", flaw, always, func(s *modelState) {
			s.granted = s.granted && flaw == "an answer leaves the grant"
		}, func(m *memory, r *registers) string {
			m.note(r, func(*modelWords) { m.excused = 0 })
			return ""
		}).changes("keep")
		t.step("restart stamp", func(m *memory, r *registers) string { r.now = m.now; return "" })
		t.restart("restart", flaw)
		t.step("kept", func(*memory, *registers) string { return "replace" })
		return
	}
	t.step("refused", func(m *memory, r *registers) string {
		if !m.state.live {
			return "asked"
		}
		return ""
	}).does("<state")
	t.mark("mark after ask", "asked", flaw)
	if flaw == "OnTimeout has the last word" {
		return
	}
	t.verdict("look after ask", flaw)
	t.same("asked", func(r *registers) int8 { return r.asked })
	if o.examines {
		t.step("late", func(m *memory, r *registers) string {
			if r.now-r.askedAt < 1 {
				return "expire lock"
			}
			return ""
		})
		t.examine("examine anew", flaw)
		t.verdict("look after examine anew", flaw)
		t.same("examined anew", func(r *registers) int8 { return r.examined })
	}
}

// same adds the step that replaces the connection if another limit is passed than
// the one that the owner was asked about. The slot is due, so the next pass judges
// it by that limit.
func (t *thread) same(name string, about func(*registers) int8) {
	t.step("the same as "+name, func(m *memory, r *registers) string {
		if r.what != about(r) {
			return "replace"
		}
		return ""
	})
}

// examine adds the steps of asking Probe, and of taking over what it says.
func (t *thread) examine(name, flaw string) {
	t.step(name, func(m *memory, r *registers) string {
		r.examined = r.what
		if r.evidence = m.kernel; r.evidence.arrived > 0 {
			r.evidence.arrived -= m.now // relative, as the owner says it
		}
		r.then = m.due(m.now)
		return ""
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
	}).does("<state")
	t.step(name+" bytes", func(m *memory, r *registers) string {
		// Never the present tick: a Touch in it would find that the stamp is right
		// already, and not take back the grant.
		at := r.now + min(r.evidence.arrived, -1)
		if flaw == "evidence of the present tick" {
			at = r.now + r.evidence.arrived
		}
		if raiseTo(&m.stamp, at); flaw == "evidence stores instead of raising" {
			m.stamp = at
		}
		m.note(r, func(w *modelWords) { raiseTo(&w.stamp, at) })
		return ""
	}).does("<phase <beat <in.stamp <in.stamp +in.stamp")
	t.step(name+" empty", func(m *memory, r *registers) string {
		if !r.evidence.empty {
			return name + " unread"
		}
		return ""
	})
	t.rewait(name+" empty", name+" empty let off", flaw)
	t.step(name+" empty let off", goOn)
	t.letsOff(name+" empty", flaw)
	t.step(name+" unread", func(m *memory, r *registers) string {
		if !r.evidence.unread {
			return name + " done"
		}
		return ""
	}).does("<phase")
	t.move(name+" grant", name+" beats", flaw,
		func(s modelState) bool { return !s.granted || flaw == "granted twice" },
		func(s *modelState) { s.granted = true },
		func(m *memory, r *registers) string {
			if m.excused != 0 {
				m.fault = "unread bytes counted as activity twice in a row"
			}
			if m.active < r.now {
				m.excused = r.now
			}
			return ""
		}).changes("grant")
	t.step(name+" raise", func(m *memory, r *registers) string {
		raiseTo(&m.stamp, r.now-1)
		m.note(r, func(w *modelWords) { raiseTo(&w.stamp, r.now-1) })
		if m.lastIn() < r.now || flaw == "a grant stays in a tick with activity" {
			return name + " granted"
		}
		return ""
	}).does("<in.stamp +in.stamp <in.stamp <beat")
	// There was activity in this tick. More of it would find that the stamp is right
	// already, and not take back the grant.
	t.move(name+" take back", name+" granted", flaw, always, func(s *modelState) { s.granted = false }, goOn).changes("grant-in-vain")
	t.step(name+" granted", goOn).does("<phase")
	t.letsOff(name+" let off", flaw)
	t.step(name+" beats", func(m *memory, r *registers) string {
		if r.passive = modelPhases[m.phase].beats; r.passive == 0 {
			return name + " done"
		}
		return ""
	}).does("<phase")
	t.step(name+" put off", func(m *memory, r *registers) string {
		if m.pinged > m.beat {
			return name + " done"
		}
		return ""
	}).does("<pinged <beat")
	t.step(name+" pinged", func(m *memory, r *registers) string {
		to := r.now + min(1, r.passive) - r.passive
		raiseTo(&m.pinged, to)
		m.note(r, func(w *modelWords) { raiseTo(&w.pinged, to) })
		return ""
	}).does("<pinged +pinged")
	t.step(name+" done", func(m *memory, r *registers) string {
		r.evidence, r.passive = modelEvidence{}, 0
		return ""
	})
}

// note notes what the judge has done to the connection that it has in hand.
func (m *memory) note(_ *registers, what func(*modelWords)) { what(&m.truth) }

// restart adds the steps of Conn.restart: the limit that r.what names counts from
// r.now.
func (t *thread) restart(name, flaw string) {
	t.step(name, func(m *memory, r *registers) string {
		switch r.what {
		case byRead:
			return name + " wait load"
		case byRate:
			return name + " pause load"
		case byBeat:
			return name + " beats"
		case byPhase:
			return name + " whole"
		}
		raiseTo(&m.stamp, r.now)
		m.note(r, func(w *modelWords) { raiseTo(&w.stamp, r.now) })
		return name + " done"
	}).does("<out.stamp +out.stamp") // the model's stamp is that of both directions
	t.step(name+" beats", func(m *memory, r *registers) string {
		raiseTo(&m.pinged, r.now)
		m.note(r, func(w *modelWords) { raiseTo(&w.pinged, r.now) })
		return name + " done"
	}).does("<pinged +pinged <state")
	t.step(name+" whole", func(m *memory, r *registers) string {
		raiseTo(&m.began, r.now)
		m.note(r, func(w *modelWords) { raiseTo(&w.began, r.now) })
		return name + " done"
	}).does("<began +began")
	t.rewait(name, name+" done", flaw)
	t.letsOff(name, flaw)
	t.step(name+" done", func(m *memory, r *registers) string { r.wait = modelWait{}; return "" })
}

// rewait adds the steps of flow.rewait.
func (t *thread) rewait(name, to, flaw string) {
	t.step(name+" wait load", func(m *memory, r *registers) string {
		if r.wait = m.wait; !r.wait.on || r.wait.since >= r.now {
			return to
		}
		return ""
	}).does("<in.wait")
	t.step(name+" wait swap", func(m *memory, r *registers) string {
		if m.wait != r.wait && flaw != "restart stores the wait" {
			return name + " wait load"
		}
		m.wait = modelWait{r.now, true}
		m.note(r, func(w *modelWords) { raiseTo(&w.wait.since, r.now) })
		return to
	}).does("?in.wait")
}

// letsOff adds the steps of flow.letOff by an owner.
func (t *thread) letsOff(name, flaw string) {
	t.letOff(name, flaw, func(m *memory, r *registers) {
		m.note(r, func(w *modelWords) {
			if raiseTo(&w.paid, r.now); !w.wait.on {
				raiseTo(&w.wait.since, r.now)
			}
			raiseTo(&m.letOff, r.now)
		})
	})
}

// letOff adds the steps of flow.letOff, with r.now as the time that it has read first. done
// is called when that is paid for.
//
// A pause is moved before it is paid for. A wait that begins meanwhile pays for the pause
// as well, and takes that back when it finds that the pause was moved. If it has paid just
// before paid was raised, that is lost: paid is older than the wait. It is not older than
// the clock is now.
func (t *thread) letOff(name, flaw string, done func(*memory, *registers)) {
	pay := func(again string) {
		t.step(name+" paid"+again, func(m *memory, r *registers) string {
			if raiseTo(&m.paid, r.now); flaw == "restart stores what is paid" {
				m.paid = r.now
			}
			if again == "" {
				done(m, r)
			}
			return ""
		}).does("<in.wait <in.paid +in.paid")
	}
	if flaw == "letOff pays before it moves the pause" {
		pay("")
	}
	t.step(name+" pause load", func(m *memory, r *registers) string {
		if r.wait = m.wait; r.wait.on || r.wait.since >= r.now {
			return name + " moved"
		}
		return ""
	}).does("<in.wait")
	t.step(name+" pause swap", func(m *memory, r *registers) string {
		if m.wait == r.wait {
			m.wait.since = r.now
		}
		return ""
	}).does("?in.wait")
	t.step(name+" moved", func(m *memory, r *registers) string { r.wait = modelWait{}; return "" })
	if flaw != "letOff pays before it moves the pause" {
		pay("")
	}
	if flaw != "letOff looks at the clock once" {
		t.step(name+" clock again", func(m *memory, r *registers) string { r.now = m.now; return "" })
		pay(" again")
	}
}

// ping adds the steps of an active heartbeat's ping. It counts from the look that found it due.
// Input that has come since, or Enter, is then not older than the ping, as if it were answered.
func (t *thread) ping(flaw string) {
	t.step("ping due", func(m *memory, r *registers) string {
		if r.then&(1<<toPing) == 0 {
			m.fault = "pinged, but that was not due at any moment of the last look"
		}
		return ""
	})
	t.step("ping raise", func(m *memory, r *registers) string {
		m.note(r, func(w *modelWords) { raiseTo(&w.pinged, r.now) })
		if flaw == "a ping counts from when it is sent" {
			r.now = m.now
		}
		raiseTo(&m.pinged, r.now)
		if flaw == "a ping moves the beginning of the phase" {
			raiseTo(&m.began, m.now)
		}
		return ""
	}).does("<pinged +pinged")
	t.move("ping mark", "replace", flaw, always, func(s *modelState) { s.pinged = true },
		func(m *memory, r *registers) string {
			m.note(r, func(w *modelWords) { w.state.pinged = true })
			r.pings = true
			return ""
		}).changes("ping")
}

// end adds the steps of Shard.end, with the transitions by which the connection ends.
func (t *thread) end(name, otherwise, flaw string, reaped bool, may func(modelState) bool, by []string, check func(*memory, *registers)) {
	t.lock(name)
	t.move(name+" move", name+" unlock", flaw, may, func(s *modelState) { s.live, s.expired, s.ending = false, reaped, true },
		func(m *memory, r *registers) string {
			m.outcomes++
			r.ended = true
			check(m, r)
			return ""
		}).changes(by...)
	t.step(name+" cancel", func(m *memory, r *registers) string {
		if flaw != "an order leaves the connection in the wheel" {
			m.pending = false
		}
		return ""
	})
	t.step(name+" unlock", func(m *memory, r *registers) string {
		switch m.locked = false; {
		case r.ended && reaped:
			return "linger lock"
		case r.ended && r.asked != 0:
			return "asked"
		case r.ended:
			return "end"
		}
		return otherwise
	})
}

// linger adds the steps of Shard.linger, which places what has timed out to be
// reaped.
func (t *thread) linger(flaw string) {
	t.lock("linger").begin("Shard.lingerFor")
	t.step("linger state", func(m *memory, r *registers) string {
		if !m.state.expired && flaw != "linger does not look" {
			return "linger unlock"
		}
		return ""
	}).does("<state")
	t.step("linger schedule", func(m *memory, r *registers) string { m.placed, m.pending = far, true; return "" }).does(">placed")
	t.unlock("linger", "end")
}
