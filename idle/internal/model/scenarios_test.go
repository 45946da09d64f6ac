package model

// A scenario is a memory, and threads that meet in it.
type scenario struct {
	name    string
	memory  memory
	threads func(flaw string) []*thread
	flaws   []string // each must be found
	limit   string   // what the protocol is not proof against: a fault is found without a flaw
	late    string   // why a deadline may be later than what was done asks for
	large   bool     // not for -short
	writes  bool     // the flow is that of writing
}

// tracked is a connection that the judge has in hand. All its limits count from
// tick 1, and the clock is at tick now.
func tracked(phase, now int8, waits bool) memory {
	m := memory{now: now, modelWords: begunAt(phase, 1, waits), placed: now}
	m.truth = m.modelWords
	m.state = modelState{live: true}
	return m
}

// overdue is the same connection, a wait of which began beyond the limit on all waits.
func (m memory) overdue() memory {
	m.state.overdue, m.truth.state.overdue = true, true
	return m
}

// pausedAt is the same connection after its wait has ended at the given tick.
func (m memory) pausedAt(tick int8) memory {
	m.wait = modelWait{tick, false}
	m.truth.wait = m.wait
	return m
}

// placedAt is the same connection in its slot.
func (m memory) placedAt(tick int8) memory {
	m.placed, m.pending = tick, true
	return m
}

// touchedAt is the same connection after activity at the given tick.
func (m memory) touchedAt(tick int8) memory {
	m.stamp, m.truth.stamp = tick, tick
	return m
}

// found is the same connection, whose owner finds that out when it is asked.
func (m memory) found(e modelEvidence) memory {
	m.kernel = e
	return m
}

// pingedAt is the same connection after a ping at the given tick.
func (m memory) pingedAt(tick int8) memory {
	m.pinged, m.truth.pinged = tick, tick
	m.state.pinged, m.truth.state.pinged = true, true
	return m
}

// grantedAt is the same connection after unread bytes have counted as activity at
// the given tick.
func (m memory) grantedAt(tick int8) memory {
	m.state.granted, m.excused = true, tick
	m.stamp = tick - 1
	m.truth.stamp = m.stamp
	return m
}

var (
	plainOwner    = modelOwner{}
	reapedOwner   = modelOwner{reaped: true}
	refusingOwner = modelOwner{asked: true}
	keepingOwner  = modelOwner{asked: true, keep: true}
	openOwner     = modelOwner{examines: true}
	thoroughOwner = modelOwner{examines: true, asked: true}
)

var deliveryFlaws = []string{
	"an end is marked after the last look", "delivered before it is reported",
	"a reader takes no mark back", "an end does not need its mark",
}

const (
	letOffLate = "what was waited in all is let off up to the second look at the clock"
)

var scenarios = []scenario{{
	name:   "touch against expiry",
	memory: tracked(idlePhase, 3, false),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, plainOwner), touching(1), ticking(2)}
	},
	flaws: []string{"next reads the clock last"},
}, {
	name:   "the answer to a ping, and use, against expiry",
	memory: tracked(keptPhase, 4, false),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, plainOwner), answering(flaw, false), ticking(2)}
	},
	flaws: []string{"an answer is expected forever"},
}, {
	name:   "use, the answer to a ping, and use, against expiry",
	memory: tracked(keptPhase, 4, false),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, plainOwner), answering(flaw, true), ticking(2)}
	},
	flaws: []string{"an answer is expected late"},
}, {
	name:   "touch against expiry after an OnTimeout that answers no",
	memory: tracked(idlePhase, 4, false),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, refusingOwner), touching(1), ticking(1)}
	},
	flaws: []string{"OnTimeout has the last word"},
}, {
	name:   "touch against expiry after an OnTimeout that answers yes",
	memory: tracked(idlePhase, 4, false),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, keepingOwner), touching(1), ticking(2)}
	},
}, {
	name:   "enter against expiry",
	memory: tracked(idlePhase, 3, false),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, plainOwner), entering(flaw, shortIdlePhase), ticking(1)}
	},
	flaws: []string{
		"enter stores the phase first", "next reads the phase last", "next reads the stamp before the phase",
	},
}, {
	name:   "enter a longer phase against expiry",
	memory: tracked(shortIdlePhase, 2, false),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, plainOwner), entering(flaw, idlePhase), ticking(2)}
	},
	flaws: []string{"next reads the clock after the phase"},
}, {
	name:   "enter a phase with a limit of its own against expiry",
	memory: tracked(idlePhase, 3, false),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, plainOwner), entering(flaw, wholePhase), ticking(2)}
	},
	flaws: []string{"enter stores the phase first"},
}, {
	name:   "touch and enter against expiry",
	large:  true,
	memory: tracked(idlePhase, 3, false),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, plainOwner), touching(1), entering(flaw, shortIdlePhase), ticking(2)}
	},
	flaws: []string{"next reads the phase last"},
}, {
	name:   "await against expiry",
	memory: tracked(waitPhase, 6, false),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, plainOwner), awaiting(flaw), ticking(1)}
	},
	flaws: []string{
		"await waits before it pays", "next reads what is paid before the wait",
		"place does not look again", "hasten comes before the wait",
	},
}, {
	name:   "pause against expiry",
	memory: tracked(readPhase, 3, true),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, plainOwner), pausing(), ticking(1)}
	},
	flaws: []string{"next reads the clock last"},
}, {
	name:   "a byte that is delivered against expiry by the wait for it",
	memory: tracked(readPhase, 3, true),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, plainOwner), delivering(flaw), ticking(1)}
	},
	flaws: deliveryFlaws,
}, {
	name:   "a byte that is delivered against expiry by idleness",
	memory: tracked(idlePhase, 3, true),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, reapedOwner), delivering(flaw), ticking(1)}
	},
	flaws: deliveryFlaws,
}, {
	name:   "a byte that is delivered against an OnTimeout that answers no",
	memory: tracked(readPhase, 4, true),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, refusingOwner), delivering(flaw), ticking(1)}
	},
	flaws: append([]string{"OnTimeout has the last word"}, deliveryFlaws[1:]...),
}, {
	name:   "a byte that is delivered against an OnTimeout that answers yes",
	memory: tracked(readPhase, 4, true),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, keepingOwner), delivering(flaw), ticking(1)}
	},
}, {
	name:   "a byte that is delivered against Examine",
	memory: tracked(waitPhase, 4, true).found(modelEvidence{arrived: 1}),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, openOwner), delivering(flaw), ticking(1)}
	},
	flaws: deliveryFlaws,
	large: true,
}, {
	name:   "a byte that is delivered against expiry and Close",
	memory: tracked(readPhase, 3, true),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, plainOwner), delivering(flaw), closing()}
	},
}, {
	name:   "pause against expiry by what was waited in all",
	memory: tracked(ratePhase, 3, true),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, plainOwner), pausing(), ticking(1)}
	},
	flaws: []string{"next reads the clock last"},
}, {
	name:   "a read that ends, and the next, against expiry",
	large:  true,
	memory: tracked(readPhase, 3, true),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, plainOwner), reading(flaw), ticking(2)}
	},
	flaws: []string{"next reads the clock last"},
}, {
	name:   "a read that ends, and the next, against expiry by what was waited in all",
	large:  true,
	memory: tracked(ratePhase, 3, true),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, plainOwner), reading(flaw), ticking(2)}
	},
	flaws: []string{"await waits before it pays"},
}, {
	name:   "a read that begins beyond the limit of all, and ends, against expiry",
	memory: tracked(ratePhase, 5, false).pausedAt(5),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, plainOwner), readingLate(flaw, false), ticking(1)}
	},
	flaws: []string{"await is never overdue"},
}, {
	name:   "a read that begins beyond the limit of all again, and ends, against expiry",
	memory: tracked(ratePhase, 5, false).pausedAt(5).overdue(),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, plainOwner), readingLate(flaw, false), ticking(1)}
	},
}, {
	name:   "a read that begins beyond the limit of all, and whose byte is delivered, against expiry",
	memory: tracked(ratePhase, 5, false).pausedAt(5),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, plainOwner), readingLate(flaw, true), ticking(1)}
	},
	flaws: []string{"a byte that is delivered leaves a read overdue", "an end does not need its mark"},
}, {
	name:   "a read that begins within the limit of all, and ends beyond it",
	memory: tracked(ratePhase, 6, false).pausedAt(3).placedAt(far),
	threads: func(flaw string) []*thread {
		return []*thread{readingLate(flaw, false), ticking(3)}
	},
	flaws: []string{"await is overdue before it pays"},
}, {
	name:   "enter while a read is overdue, which ends beyond the limit of all",
	memory: tracked(ratePhase, 5, true).overdue().placedAt(5),
	threads: func(flaw string) []*thread {
		return []*thread{entering(flaw, ratePhase), pausing(), ticking(4)}
	},
	flaws: []string{"enter leaves a read overdue"},
}, {
	name:   "enter against a read that begins beyond the limit of all, and ends beyond it",
	memory: tracked(ratePhase, 5, false).pausedAt(5).placedAt(5),
	threads: func(flaw string) []*thread {
		return []*thread{entering(flaw, ratePhase), readingLate(flaw, false), ticking(4)}
	},
	flaws: []string{"await is overdue in the next phase"},
}, {
	name:   "enter in a pause against expiry",
	memory: tracked(ratePhase, 6, false).pausedAt(3).overdue(),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, plainOwner), entering(flaw, ratePhase), ticking(1)}
	},
	flaws: []string{"enter stores the wait before what is paid"},
}, {
	name:   "two closes and a touch against expiry",
	memory: tracked(idlePhase, 4, false),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, plainOwner), closing(), closing(), touching(1)}
	},
	flaws: []string{"an end does not look"},
}, {
	name:   "close against expiry and what lingers",
	memory: tracked(idlePhase, 4, false),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, reapedOwner), closing(), ticking(1)}
	},
	flaws: []string{"an end does not look", "linger does not look"},
}, {
	name:   "two closes against expiry and what lingers",
	memory: tracked(idlePhase, 4, false),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, reapedOwner), closing(), closing()}
	},
	flaws: []string{"linger does not look"},
}, {
	name:   "close against expiry",
	memory: tracked(idlePhase, 4, false),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, plainOwner), closing(), ticking(1)}
	},
	flaws: []string{"an end does not look"},
}, {
	name:   "close against an OnTimeout that answers no",
	memory: tracked(idlePhase, 4, false),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, refusingOwner), closing(), ticking(1)}
	},
	flaws: []string{"a verdict stores instead of swapping", "an end does not look"},
}, {
	name:   "close against an OnTimeout that answers yes",
	memory: tracked(idlePhase, 4, false),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, keepingOwner), closing(), ticking(1)}
	},
	flaws: []string{"a verdict stores instead of swapping"},
}, {
	name:   "a read that ends, and the next, against an OnTimeout that answers yes",
	memory: tracked(readPhase, 4, true),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, keepingOwner), reading(flaw), ticking(1)}
	},
	flaws: []string{"restart stores the wait"},
}, {
	name:   "await against an OnTimeout of a rate that answers yes",
	memory: tracked(ratePhase, 6, false).pausedAt(5).overdue(),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, keepingOwner), awaiting(flaw), ticking(1)}
	},
	flaws: []string{"letOff looks at the clock once"},
	late:  letOffLate,
}, {
	name:   "await against an OnTimeout of a rate that answers yes, within a tick",
	memory: tracked(ratePhase, 6, false).pausedAt(5).overdue(),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, keepingOwner), awaiting(flaw)}
	},
	flaws: []string{"letOff pays before it moves the pause", "await takes nothing back"},
}, {
	name:   "enter against a touch",
	memory: tracked(idlePhase, 3, false).placedAt(3),
	threads: func(flaw string) []*thread {
		return []*thread{entering(flaw, shortIdlePhase), touching(1), ticking(2)}
	},
}, {
	name:   "enter against a read that ends",
	memory: tracked(readPhase, 3, true).placedAt(4),
	threads: func(flaw string) []*thread {
		return []*thread{entering(flaw, waitPhase), pausing(), ticking(1)}
	},
	flaws: []string{"enter stores the wait"},
}, {
	name:   "enter against await within a tick",
	memory: tracked(idlePhase, 3, false).placedAt(far),
	threads: func(flaw string) []*thread {
		return []*thread{entering(flaw, ratePhase), awaiting(flaw)}
	},
	flaws: []string{"await hastens by an older phase", "await takes nothing back", "enter takes nothing back"},
}, {
	name:   "enter against await",
	memory: tracked(idlePhase, 3, false).placedAt(3),
	threads: func(flaw string) []*thread {
		return []*thread{entering(flaw, waitPhase), awaiting(flaw), ticking(2)}
	},
	limit: "an Enter that is preempted for a tick, while a wait begins, has that wait and its rate count from the Enter",
}, {
	name:   "enter and await against expiry within a tick",
	large:  true,
	memory: tracked(ratePhase, 6, false).pausedAt(3),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, plainOwner), entering(flaw, ratePhase), awaiting(flaw)}
	},
	flaws: []string{"next reads what is paid before the wait"},
}, {
	name:   "enter against an OnTimeout of a rate that answers yes",
	memory: tracked(ratePhase, 4, true),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, keepingOwner), entering(flaw, ratePhase), ticking(1)}
	},
	flaws: []string{"enter goes on when the clock has moved on"},
	late:  letOffLate,
}, {
	name:   "beat against enter",
	memory: tracked(shortBeatPhase, 3, false).placedAt(3),
	threads: func(flaw string) []*thread {
		return []*thread{beating(flaw), entering(flaw, beatPhase), ticking(2)}
	},
}, {
	name:   "beat against another beat",
	memory: tracked(shortBeatPhase, 3, false).touchedAt(3).placedAt(3),
	threads: func(flaw string) []*thread {
		return []*thread{beating(flaw), beating(flaw), ticking(2)}
	},
	flaws: []string{"a beat stores its stamp"},
}, {
	name:   "beat against expiry",
	memory: tracked(shortBeatPhase, 3, false),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, plainOwner), beating(flaw), ticking(2)}
	},
	flaws: []string{"next reads the clock last"},
}, {
	name:   "beat against an OnTimeout that answers yes",
	memory: tracked(shortBeatPhase, 4, false),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, keepingOwner), beating(flaw), ticking(1)}
	},
}, {
	name:   "beat against Examine of unread bytes",
	memory: tracked(shortBeatPhase, 4, false).found(modelEvidence{unread: true}),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, openOwner), beating(flaw), ticking(2)}
	},
}, {
	name:   "touch against a ping that is not answered",
	memory: tracked(pingPhase, 4, false).pingedAt(3),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, plainOwner), touching(1), ticking(1)}
	},
	flaws: []string{"next reads the clock last"},
}, {
	name:   "enter against a ping that is not answered",
	memory: tracked(pingPhase, 5, false).pingedAt(3),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, plainOwner), entering(flaw, pingPhase), ticking(1)}
	},
	flaws: []string{"next reads the state last"},
}, {
	name:   "enter against a ping that is answered",
	large:  true,
	memory: tracked(pingPhase, 3, false).pingedAt(3).touchedAt(3),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, plainOwner), entering(flaw, wholePhase), ticking(3)}
	},
	flaws: []string{"enter stores the ping before the stamp", "next reads the input before the ping"},
}, {
	name:   "enter a phase with a limit of its own against a ping",
	memory: tracked(pingPhase, 4, false),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, plainOwner), entering(flaw, wholePhase), ticking(2)}
	},
	flaws: []string{"a ping moves the beginning of the phase"},
}, {
	name:   "enter a phase with a ping of its own against a ping",
	memory: tracked(pingPhase, 4, false),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, plainOwner), entering(flaw, rarePingPhase), ticking(2)}
	},
	flaws: []string{"a ping counts from when it is sent"},
}, {
	name:   "touch against Examine",
	memory: tracked(shortIdlePhase, 4, false).found(modelEvidence{arrived: 3}),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, openOwner), touching(1), ticking(2)}
	},
	flaws: []string{"evidence stores instead of raising", "Examine has the last word"},
}, {
	name:   "enter against Examine",
	memory: tracked(shortIdlePhase, 4, false).found(modelEvidence{arrived: 3}),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, openOwner), entering(flaw, idlePhase), ticking(1)}
	},
	flaws: []string{"evidence stores instead of raising", "Examine has the last word"},
}, {
	name:   "close against Examine",
	memory: tracked(shortIdlePhase, 4, false).found(modelEvidence{arrived: 3}),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, openOwner), closing(), ticking(2)}
	},
	flaws: []string{"an end does not look"},
}, {
	name:   "touches against Examine of unread bytes",
	memory: tracked(shortIdlePhase, 4, false).found(modelEvidence{arrived: 4, unread: true}),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, openOwner), touching(2), ticking(2)}
	},
	flaws: []string{"evidence of the present tick", "a grant stays in a tick with activity"},
}, {
	name:   "touch against another Examine of unread bytes",
	memory: tracked(shortIdlePhase, 4, false).found(modelEvidence{unread: true}).grantedAt(3),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, openOwner), touching(1), ticking(1)}
	},
	flaws: []string{"granted twice"},
}, {
	name:   "enter against Examine of unread bytes",
	memory: tracked(shortIdlePhase, 4, false).found(modelEvidence{unread: true}),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, openOwner), entering(flaw, idlePhase), ticking(2)}
	},
	flaws: []string{"enter keeps the grant"},
}, {
	name:   "touch against an OnTimeout that answers yes, after unread bytes were excused",
	memory: tracked(shortIdlePhase, 5, false).grantedAt(3),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, keepingOwner), touching(1), ticking(1)}
	},
	flaws: []string{"an answer leaves the grant"},
}, {
	name:   "touch against Examine of more bytes, after unread ones were excused",
	memory: tracked(shortIdlePhase, 4, false).found(modelEvidence{arrived: 3}).grantedAt(3),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, openOwner), touching(1), ticking(1)}
	},
	limit: "a Touch that is preempted for a tick takes no grant back if the evidence meanwhile is of its own tick",
}, {
	name:   "close against Examine of unread bytes",
	memory: tracked(shortIdlePhase, 4, false).found(modelEvidence{unread: true}),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, openOwner), closing(), ticking(1)}
	},
	flaws: []string{"an end does not look"},
}, {
	name:   "a write that ends, and the next, against Examine that finds nothing to wait for",
	large:  true,
	writes: true,
	memory: tracked(waitPhase, 4, true).found(modelEvidence{empty: true}),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, openOwner), reading(flaw), ticking(1)}
	},
	flaws: []string{"letOff looks at the clock once", "Examine has the last word"},
	late:  letOffLate,
}, {
	name:   "a read that ends, and the next, against Examine of a rate with unread bytes",
	large:  true,
	memory: tracked(ratePhase, 4, true).found(modelEvidence{unread: true}),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, openOwner), reading(flaw), ticking(1)}
	},
	flaws: []string{"letOff looks at the clock once"},
	late:  letOffLate,
}, {
	name:   "touch against Examine of a limit, when another one is passed as well",
	memory: tracked(waitPhase, 4, true).found(modelEvidence{arrived: 3}),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, openOwner), touching(1), ticking(1)}
	},
	flaws: []string{"a limit that nobody examined ends it"},
}, {
	name:   "touch against Examine before and after an OnTimeout that answers no",
	memory: tracked(shortIdlePhase, 4, false).found(modelEvidence{arrived: 1}),
	threads: func(flaw string) []*thread {
		return []*thread{judging(flaw, thoroughOwner), touching(1), ticking(2)}
	},
	flaws: []string{"OnTimeout has the last word"},
}}
