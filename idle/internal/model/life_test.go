package model

import "slices"

// The threads of the model that change what a connection is.

// entering is Conn.Enter. The stamp comes before the ping, or a ping that was
// answered would look unanswered in between.
func entering(flaw string, phase int8) *thread { return enteringVersions(flaw, phase, false) }

// enteringVersions is Conn.Enter of a phase that may be replaced meanwhile.
func enteringVersions(flaw string, phase int8, versions bool) *thread {
	t := newThread("enter")
	if versions {
		t.step("left", func(m *memory, r *registers) string {
			if m.latest(m.phase) == m.phase {
				return "version"
			}
			return ""
		}).begin("Conn.Enter").does("<phase")
		t.follow("leave", flaw)
		t.step("version", func(m *memory, r *registers) string { r.version = m.latest(phase); return "" })
	}
	if !versions {
		t.step("left", func(m *memory, r *registers) string { r.version = phase; return "" }).begin("Conn.Enter").does("<phase")
	}
	t.step("stamp", func(m *memory, r *registers) string { r.now = m.now; return "" })
	steps := []step{
		{name: "began", do: func(m *memory, r *registers) string { raiseTo(&m.began, r.now); return "" }, words: raises("began")},
		{name: "paid", do: func(m *memory, r *registers) string { m.paid = r.now; return "" }, words: raises("in.paid")},
		{name: "stamp of in", do: func(m *memory, r *registers) string {
			raiseTo(&m.stamp, r.now)
			raiseTo(&m.active, r.now)
			return ""
		}, words: raises("in.stamp")},
		{name: "wait load", do: func(m *memory, r *registers) string { r.wait = m.wait; return "" }, words: []string{"<in.wait"}},
		{name: "wait swap", do: func(m *memory, r *registers) string {
			if m.wait != r.wait && flaw != "enter stores the wait" {
				return "begin wait load"
			}
			m.wait = modelWait{r.now, r.wait.on}
			r.wait = modelWait{}
			return ""
		}, words: []string{"?in.wait"}},
		{name: "beat", do: func(m *memory, r *registers) string { raiseTo(&m.beat, r.now); return "" }, words: raises("beat")},
		{name: "pinged", do: func(m *memory, r *registers) string { raiseTo(&m.pinged, r.now); return "" }, words: raises("pinged")},
		{name: "state", do: func(m *memory, r *registers) string {
			m.state.granted = m.state.granted && flaw == "enter keeps the grant"
			m.state.pinged, m.state.expects = false, false
			m.state.overdue = m.state.overdue && flaw == "enter leaves a read overdue"
			m.excused, m.truth.state.pinged = 0, false
			return ""
		}, words: raises("state"), may: []string{"begin"}},
		{name: "phase", do: func(m *memory, r *registers) string { m.phase = r.version; return "" }, words: []string{">phase"}},
	}
	if flaw != "enter goes on when the clock has moved on" {
		steps = slices.Insert(steps, len(steps)-1, step{name: "clock", do: func(m *memory, r *registers) string {
			if m.now != r.now {
				return "stamp"
			}
			return ""
		}})
	}
	last := len(steps) - 1
	swap := func(i, j int) { steps[i], steps[j] = steps[j], steps[i] }
	switch flaw {
	case "enter stores the phase first":
		swap(0, last)
	case "enter stores the wait before what is paid":
		steps = append(steps[3:5:5], append(steps[:3:3], steps[5:]...)...)
	case "enter stores the ping before the stamp":
		swap(2, 6)
	}
	for i, s := range steps {
		begin := t.step("begin "+s.name, func(m *memory, r *registers) string {
			if to := s.do(m, r); i < last {
				return to
			}
			tr := &m.truth
			tr.phase = m.latest(phase)
			tr.state.overdue = false
			for _, w := range []*int8{&tr.began, &tr.beat, &tr.pinged, &tr.paid, &tr.stamp, &tr.wait.since} {
				raiseTo(w, r.now)
			}
			r.at = modelPhases[r.version].soonest(r.now)
			return ""
		})
		begin.words = s.words
		begin.changes(s.may...)
	}
	// A wait that began meanwhile may have paid for the pause since long before.
	if flaw != "enter takes nothing back" {
		t.step("paid ahead", func(m *memory, r *registers) string {
			if m.paid <= r.now {
				return "taken back"
			}
			return ""
		}).does("<in.paid")
		t.step("take back clock", func(m *memory, r *registers) string { r.beat = m.now; return "" })
		t.step("take back", func(m *memory, r *registers) string { m.paid = min(m.paid, r.beat); r.beat = 0; return "" }).does("<in.paid +in.paid")
		t.step("taken back", goOn)
	}
	if versions && flaw != "enter stays in an older version" {
		t.step("again", func(m *memory, r *registers) string {
			if m.latest(phase) != r.version {
				return "version"
			}
			return ""
		})
	}
	t.pull("pull", flaw)
	return t
}

// closing is Conn.Stop.
func closing() *thread {
	t := newThread("closer")
	t.lock("close").begin("Conn.close")
	t.step("close cancel", func(m *memory, r *registers) string { m.pending = false; return "" })
	t.step("close load", func(m *memory, r *registers) string {
		if r.state = m.state; !r.state.live && !r.state.expired {
			return "close unlock"
		}
		return ""
	}).does("<state")
	t.step("close swap", func(m *memory, r *registers) string {
		if m.state != r.state {
			return "close load"
		}
		m.state = modelState{ending: r.state.expired}
		if r.state.live {
			m.outcomes++
		}
		return ""
	}).does("?state").changes("stop", "stop-expired")
	t.unlock("close", "")
	return t
}

// raises are the words of a step that moves one forward.
func raises(word string) []string { return []string{"<" + word, "+" + word} }

// begunAt returns the words of a connection all of whose limits count from the
// given tick.
func begunAt(phase, tick int8, waits bool) modelWords {
	return modelWords{
		phase: phase, wait: modelWait{tick, waits}, stamp: tick, paid: tick,
		began: tick, beat: tick, pinged: tick,
	}
}
