package idle

// The thread of the model that carries out an order, and the scenarios with it.

// ordering is Shard.carryOut of an order to end a connection of generation 1. A pass
// carries it out, so it never runs beside the part of the judge before OnTimeout. The
// model lets it, which is more than can happen.
func ordering(flaw string, reaped bool) *thread { return carryingOut(flaw, reaped, true) }

// sparing is the same for an order that spares what is in use.
func sparing(flaw string) *thread { return carryingOut(flaw, false, false) }

func carryingOut(flaw string, reaped, forced bool) *thread {
	t := newThread("order")
	t.step("job", func(m *memory, r *registers) string { r.gen = 1; return "" })
	t.lock("find")
	t.step("find state", func(m *memory, r *registers) string {
		if m.state.gen != r.gen || !m.state.live || m.state.asking {
			return "find unlock"
		}
		return ""
	})
	t.step("find pending", func(m *memory, r *registers) string {
		if r.placed = 1; !m.pending {
			r.placed = 0
		}
		return ""
	})
	t.unlock("find", "")
	t.step("found", func(m *memory, r *registers) string {
		if r.placed == 0 && flaw != "an order ends what is in hand" {
			return "end"
		}
		return ""
	})
	if !forced {
		if flaw != "an order is marked after the last look" {
			t.move("mark", "end", flaw, always, func(s *modelState) { s.ending = true }, goOn)
		}
		t.step("is in use", func(m *memory, r *registers) string {
			if !m.wait.on {
				return "take back"
			}
			return ""
		})
		if flaw == "an order is marked after the last look" {
			t.move("mark", "end", flaw, always, func(s *modelState) { s.ending = true }, goOn)
		}
	}
	t.lock("terminate")
	mayEnd := func(s modelState) bool { return forced || s.ending || flaw == "an end does not need its mark" }
	t.move("terminate move", "terminate unlock to end", flaw, mayEnd, func(s *modelState) { s.live, s.expired, s.ending = false, true, false },
		func(m *memory, r *registers) string {
			switch m.outcomes[m.state.gen]++; {
			case m.state.gen != r.gen:
				m.fault = "an order has ended a later generation"
			case m.answers && !forced:
				m.fault = "a byte was delivered, and an order that spares what is in use ended the connection"
			}
			return ""
		})
	t.step("terminate cancel", func(m *memory, r *registers) string {
		if flaw != "an order leaves the connection in the wheel" {
			m.pending = false
		}
		return ""
	})
	t.step("terminate done", func(m *memory, r *registers) string {
		if !reaped && m.state.gen == r.gen {
			m.state.expired = false
		}
		return ""
	})
	if reaped {
		t.unlock("terminate", "linger lock")
	} else {
		t.unlock("terminate", "end")
	}
	t.step("terminate unlock to end", func(m *memory, r *registers) string { m.locked = false; return "end" })
	t.linger(flaw)
	if !forced {
		t.step("take back", func(m *memory, r *registers) string {
			if m.state.gen == r.gen {
				m.state.ending = false
			}
			return "end"
		})
	}
	return t
}

var orderScenarios = []scenario{{
	name:   "an order against Close and tracking anew",
	memory: tracked(idlePhase, 3, false).placedAt(4),
	threads: func(flaw string) []*thread {
		return []*thread{ordering(flaw, false), closing(flaw, idlePhase), ticking(1)}
	},
	flaws: []string{"a verdict ignores the generation"},
}, {
	name:   "an order for what is to be reaped, against Close and tracking anew",
	memory: tracked(idlePhase, 3, false).placedAt(4),
	threads: func(flaw string) []*thread {
		return []*thread{ordering(flaw, true), closing(flaw, idlePhase), ticking(1)}
	},
	flaws: []string{"linger does not look"},
}, {
	name:   "an order against an activity that brings the deadline forward",
	memory: tracked(waitPhase, 2, false).placedAt(6),
	threads: func(flaw string) []*thread {
		return []*thread{ordering(flaw, false), awaiting(flaw), ticking(1)}
	},
	flaws: []string{"an order leaves the connection in the wheel"},
}, {
	name:   "an order that spares what is in use, against a byte that is delivered",
	memory: tracked(readPhase, 2, true).placedAt(4),
	threads: func(flaw string) []*thread {
		return []*thread{sparing(flaw), delivering(flaw), ticking(1)}
	},
	flaws: []string{
		"an order is marked after the last look", "delivered before it is reported",
		"a reader takes no mark back", "an end does not need its mark",
	},
}, {
	name:   "an order against an OnTimeout that answers no",
	memory: tracked(idlePhase, 4, false),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, refusingOwner), ordering(flaw, false), touching(1)}
	},
}, {
	name:   "an order against an OnTimeout that answers yes",
	memory: tracked(idlePhase, 4, false),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, keepingOwner), ordering(flaw, false), ticking(1)}
	},
	flaws: []string{"an order leaves the connection in the wheel"},
}}
