package model

// The thread of the model that carries out an order, and the scenarios with it.

// ordering is Shard.dismiss of a connection, whether it is in use or not. A pass carries it
// out, so it never runs beside the part of the judge before OnTimeout. The model lets it,
// which is more than can happen.
func ordering(flaw string) *thread { return dismissing(flaw, true) }

// sparing is the same for a connection that is spared if it is in use.
func sparing(flaw string) *thread { return dismissing(flaw, false) }

func dismissing(flaw string, forced bool) *thread {
	t := newThread("order")
	t.jump("live", "end", func(m *memory, _ *registers) bool { return !m.state.live || m.state.asking && !forced })
	if !forced {
		if flaw != "an order is marked after the last look" {
			t.mark("mark", "take back", flaw)
		}
		t.jump("is in use", "take back", func(m *memory, _ *registers) bool { return !m.wait.on })
		if flaw == "an order is marked after the last look" {
			t.mark("mark", "take back", flaw)
		}
	}
	mayEnd := func(s modelState) bool {
		return forced || s.ending || flaw == "an end does not need its mark" || flaw == "an end does not look"
	}
	t.end("terminate", "end", flaw, false, mayEnd, func(m *memory, r *registers) {
		if m.answers && !forced {
			m.fault = "a byte was delivered, and an order that spares what is in use ended the connection"
		}
	})
	if !forced {
		t.spare("take back", "end")
	}
	return t
}

var orderScenarios = []scenario{
	{name: "an order against Close", memory: tracked(idlePhase, 3, false).placedAt(4),
		threads: []maker{ordering, closing, ticking(1)},
		flaws:   []string{"an end does not look"}},
	{name: "an order against an activity that brings the deadline forward", memory: tracked(waitPhase, 2, false).placedAt(6),
		threads: []maker{ordering, awaiting, ticking(1)},
		flaws:   []string{"an order leaves the connection in the wheel"}},
	{name: "an order that spares what is in use, against a byte that is delivered", memory: tracked(readPhase, 2, true).placedAt(4),
		threads: []maker{sparing, delivering, ticking(1)},
		flaws:   []string{"an order is marked after the last look", "delivered before it is reported", "a reader takes no mark back", "an end does not need its mark"}},
	{name: "an order against an OnTimeout that answers no", memory: tracked(idlePhase, 4, false),
		threads: []maker{judging(refusingOwner), ordering, touching(1)}},
	{name: "an order against an OnTimeout that answers yes", memory: tracked(idlePhase, 4, false),
		threads: []maker{judging(keepingOwner), ordering, ticking(1)},
		flaws:   []string{"an order leaves the connection in the wheel"}},
}
