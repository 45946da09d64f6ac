package idle

import "testing"

// A scenario is a memory, and threads that meet in it.
type scenario struct {
	name    string
	memory  memory
	threads func(flaw string) []*thread
	flaws   []string // each of which must be found
	sound   []string // of which none is one
	limit   string   // what the protocol is not proof against: it is found without a flaw
	large   bool     // not for -short
}

// tracked is a connection whose judge has it in hand: in phase 1 to 6, all of
// its clocks at tick 1, and the present at tick now.
func tracked(phase, now int8, waits bool) memory {
	return memory{
		now: now, phase: phase, state: modelState{gen: 1, live: true},
		stamp: 1, paid: 1, beat: 1, wait: modelWait{1, waits}, mutex: waits, placed: now,
		truth: truth{phase: phase, began: 1, last: 1, since: 1, paid: 1, waiting: waits},
	}
}

var (
	plainOwner   = modelOwner{}
	askedOwner   = modelOwner{keeper: true}
	keeping      = modelOwner{keeper: true, keep: true}
	waitingOwner = modelOwner{waiter: true}
)

// placedAt is the same connection in its slot.
func (m memory) placedAt(tick int8) memory {
	m.placed, m.pending = tick, true
	return m
}

// between is that of a Waiter between two reads: the wait that is over counts
// until somebody asks.
func (m memory) between() memory {
	m.mutex, m.truth.waiting = false, false
	return m
}

var scenarios = []scenario{{
	name:   "touch against expiry",
	memory: tracked(1, 3, false),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, plainOwner), touching(), ticking(2)}
	},
	sound: []string{"one look"},
	flaws: []string{"one look, next reads the clock last"},
}, {
	name:   "touch against expiry after a Keep that answers no",
	memory: tracked(1, 4, false),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, askedOwner), touching(), ticking(1)}
	},
	flaws: []string{"Keep has the last word"},
}, {
	name:   "touch against expiry after a Keep that answers yes",
	memory: tracked(1, 4, false),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, keeping), touching(), ticking(2)}
	},
}, {
	name:   "enter against expiry",
	memory: tracked(1, 3, false),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, plainOwner), entering(flaw, 2), ticking(1)}
	},
	sound: []string{"one look"},
	flaws: []string{
		"enter stores the phase first", "one look, next reads the phase last",
		"one look, next reads the stamp before the phase",
	},
}, {
	name:   "enter a phase with a limit of its own against expiry",
	memory: tracked(1, 3, false),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, plainOwner), entering(flaw, 5), ticking(2)}
	},
	sound: []string{"one look"},
	flaws: []string{"one look, enter stores the phase first"},
}, {
	name:   "touch and enter against expiry",
	large:  true,
	memory: tracked(1, 3, false),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, plainOwner), touching(), entering(flaw, 2), ticking(2)}
	},
	flaws: []string{"next reads the phase last"},
}, {
	name:   "await against expiry",
	memory: tracked(6, 6, false),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, plainOwner), awaiting(flaw), ticking(1)}
	},
	sound: []string{"one look"},
	flaws: []string{
		"await waits before it pays", "one look, next reads what is paid before the wait",
		"place does not look again", "hasten comes before the wait",
	},
}, {
	name:   "pause against expiry",
	memory: tracked(3, 4, true),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, plainOwner), pausing(), ticking(1)}
	},
	sound: []string{"one look"},
}, {
	name:   "two closes and a touch against expiry",
	memory: tracked(1, 4, false),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, plainOwner), closing(flaw, false), closing(flaw, false), touching()}
	},
	flaws: []string{"a verdict stores instead of swapping"},
}, {
	name:   "close and track again against expiry and what lingers",
	memory: tracked(1, 4, false),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, modelOwner{reaper: true}), closing(flaw, true), ticking(1)}
	},
	flaws: []string{"a verdict stores instead of swapping", "linger does not look"},
}, {
	name:   "two closes against expiry and what lingers",
	memory: tracked(1, 4, false),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, modelOwner{reaper: true}), closing(flaw, false), closing(flaw, false)}
	},
	flaws: []string{"linger does not look"},
}, {
	name:   "close and track again against expiry",
	memory: tracked(1, 4, false),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, plainOwner), closing(flaw, true), ticking(1)}
	},
	flaws: []string{"a verdict stores instead of swapping", "a verdict ignores the generation"},
}, {
	name:   "close and track again against a Keep that answers no",
	memory: tracked(1, 4, false),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, askedOwner), closing(flaw, true), ticking(1)}
	},
	flaws: []string{"a verdict stores instead of swapping", "a verdict ignores the generation"},
}, {
	name:   "close and track again against a Keep that answers yes",
	memory: tracked(1, 4, false),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, keeping), closing(flaw, true), ticking(1)}
	},
	flaws: []string{"a verdict stores instead of swapping"},
}, {
	name:   "a Waiter's read that ends, and the next, against expiry",
	memory: tracked(3, 4, true),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, waitingOwner), reading(flaw, true), ticking(1)}
	},
	flaws: []string{
		"the question comes before the clearing", "going on stores", "the Waiter has the last word",
	},
}, {
	name:   "a Waiter's next read against expiry",
	memory: tracked(3, 4, true).between(),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, waitingOwner), reading(flaw, false), ticking(1)}
	},
	flaws: []string{
		"the question comes before the clearing", "going on stores", "the Waiter has the last word", "no allowance",
	},
}, {
	name:   "enter against a touch",
	memory: tracked(1, 3, false).placedAt(3),
	threads: func(flaw string) []*thread {
		return []*thread{entering(flaw, 2), touching(), ticking(2)}
	},
	flaws: []string{"enter stores the stamp"},
}, {
	name:   "enter against await",
	memory: tracked(1, 3, false).placedAt(3),
	threads: func(flaw string) []*thread {
		return []*thread{entering(flaw, 6), awaiting(flaw), ticking(2)}
	},
	limit: "an Enter that is preempted for a tick, while a wait begins, has that wait and its rate count from the Enter",
}, {
	name:   "a ping against enter",
	memory: tracked(5, 3, false).placedAt(3),
	threads: func(flaw string) []*thread {
		return []*thread{pingingNow(flaw), entering(flaw, 5), ticking(2)}
	},
	flaws: []string{"a ping stores its stamp"},
}, {
	name:   "a Waiter's read and enter against expiry",
	memory: tracked(3, 4, true),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, waitingOwner), entering(flaw, 7), ticking(1)}
	},
	flaws: []string{"going on swaps once"},
}, {
	name:   "a Waiter's next read against its rate",
	memory: tracked(4, 4, true).between(),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, waitingOwner), reading(flaw, false), ticking(1)}
	},
	flaws: []string{"suspended as of now"},
}, {
	name:   "close and track again against a Keep of a rate that answers yes",
	memory: tracked(4, 4, true),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, keeping), closing(flaw, true), ticking(1)}
	},
	flaws: []string{"restart stores"},
}, {
	name:   "a Waiter closed and tracked again against expiry",
	memory: tracked(3, 4, true),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, waitingOwner), closing(flaw, true), freeing()}
	},
	limit: "a question about a connection that is closed and tracked anew meanwhile clears the wait of the new one, or has it looked at too late",
}}

// freeing is the reader that leaves, before or after the Conn is tracked anew.
func freeing() *thread {
	t := newThread("reader")
	t.step("unlock", func(m *memory, _ *registers) string { m.mutex = false; return "" })
	return t
}

// atEnd looks for what is wrong once all is done.
func atEnd(m *memory) {
	for gen := int8(1); gen <= m.state.gen; gen++ {
		want := int8(1)
		if gen == m.state.gen && m.state.live {
			want = 0
		}
		if m.outcomes[gen] != want {
			m.fault = "a generation does not have one outcome"
			return
		}
	}
	if !m.state.live {
		if m.pending != m.state.expired {
			m.fault = "in a slot, or not, unlike what is still to be reaped"
		}
		return
	}
	tr := m.truth
	at, _ := modelDeadline(m.phase, m.stamp, m.wait, m.paid, m.beat)
	must, _ := modelDeadline(tr.phase, tr.last, modelWait{tr.since, tr.waiting}, tr.paid, tr.began)
	switch {
	case !m.pending:
		m.fault = "live, but in no slot"
	case m.state.asking:
		m.fault = "being asked for ever"
	case tr.waiting && !m.wait.on:
		m.fault = "a wait does not count"
	case m.placed > at:
		m.fault = "placed too late"
	case at < must:
		m.fault = "the deadline is too early"
	}
}

// TestModel tries all interleavings of each scenario, and of each of its flawed
// variants, which must be found faulty.
func TestModel(t *testing.T) {
	states, ways := 0, 0.0
	for _, s := range scenarios {
		try := func(flaw string) *exploration {
			x := &exploration{threads: s.threads(flaw), final: atEnd}
			ways += x.explore(s.memory)
			states += len(x.seen)
			return x
		}
		t.Run(s.name, func(t *testing.T) {
			if s.large && testing.Short() {
				t.Skip("a second or two")
			}
			for _, flaw := range append(s.sound, "") {
				x := try(flaw)
				t.Logf("%s: %d states, %.3g interleavings", flaw, len(x.seen), x.ways)
				switch {
				case x.fault != "" && s.limit == "":
					t.Errorf("%s: %v", flaw, x)
				case x.fault == "" && s.limit != "":
					t.Errorf("no longer so: %s", s.limit)
				case s.limit != "":
					t.Logf("known limit: %s. %v", s.limit, x)
				}
			}
			for _, flaw := range s.flaws {
				t.Run(flaw, func(t *testing.T) {
					x := try(flaw)
					if x.fault == "" {
						t.Error("the flaw is not found")
					}
					t.Logf("%s, by %d steps, after %d states", x.fault, len(x.trace), len(x.seen))
				})
			}
		})
	}
	t.Logf("%d states, %.3g interleavings", states, ways)
}
