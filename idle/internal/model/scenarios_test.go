package model

// A scenario is a memory, and threads that meet in it.
type scenario struct {
	name    string
	memory  memory
	threads []maker
	flaws   []string // each must be found
	limit   string   // what the protocol is not proof against: a fault is found without a flaw
	late    string   // why a deadline may be later than what was done asks for
	large   bool     // not for -short
}

// tracked is a connection that the judge has in hand. All its limits count from
// tick 1, and the clock is at tick now.
func tracked(phase, now int8, waits bool) memory {
	m := memory{now: now, modelWords: begunAt(phase, 1, waits), placed: now}
	m.state.exact = true
	m.truth = m.modelWords
	m.state.live = true
	return m
}

// unmeasured is the same connection before its waits are measured.
func (m memory) unmeasured() memory {
	m.state.exact, m.truth.state.exact = false, false
	return m
}

// slowOther is the same connection, the rate of whose other flow looks missed.
func (m memory) slowOther() memory {
	m.otherSlow = true
	return m
}

// paidUpTo is the same connection, whose waits are paid for up to the given tick.
func (m memory) paidUpTo(tick int8) memory {
	m.paid, m.truth.paid = tick, tick
	return m
}

// pausedAt is the same connection after its wait has ended at the given tick.
func (m memory) pausedAt(tick int8) memory {
	m.wait = modelWait{since: tick, on: false}
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

// beatAt is the same connection after a beat at the given tick.
func (m memory) beatAt(tick int8) memory {
	m.beat, m.truth.beat = tick, tick
	return m
}

// pingedAt is the same connection after a ping at the given tick.
func (m memory) pingedAt(tick int8) memory {
	m.pinged, m.truth.pinged = tick, tick
	m.state.pinged, m.truth.state.pinged = true, true
	return m
}

// replaceable is the same connection, whose phase may get other limits.
func (m memory) replaceable(phase int8) memory {
	m.replaced = phase
	return m
}

var (
	plainOwner    = modelOwner{}
	refusingOwner = modelOwner{asked: true}
	keepingOwner  = modelOwner{asked: true, keep: true}
	openOwner     = modelOwner{examines: true}
	thoroughOwner = modelOwner{examines: true, asked: true}
)

var deliveryFlaws = []string{
	"an end is marked after the last look", "delivered before it is reported",
	"a reader takes no mark back", "an end does not need its mark",
}

const paidTwice = "a pause is paid for twice if a phase is entered, OnTimeout keeps a rate, or waits begin to be measured, while a wait begins"

var scenarios = []scenario{
	{name: "touch against expiry", memory: tracked(idlePhase, 3, false),
		threads: []maker{judging(plainOwner), touching(1), ticking(2)},
		flaws:   []string{"next reads the clock last"}},
	{name: "touch against expiry after an OnTimeout that answers no", memory: tracked(idlePhase, 4, false),
		threads: []maker{judging(refusingOwner), touching(1), ticking(1)},
		flaws:   []string{"OnTimeout has the last word"}},
	{name: "touch against expiry after an OnTimeout that answers yes", memory: tracked(idlePhase, 4, false),
		threads: []maker{judging(keepingOwner), touching(1), ticking(2)}},
	{name: "enter against expiry", memory: tracked(idlePhase, 3, false),
		threads: []maker{judging(plainOwner), entering(shortIdlePhase), ticking(1)},
		flaws:   []string{"enter stores the phase first", "next reads the phase last", "next reads the use before the phase"}},
	{name: "enter a longer phase against expiry", memory: tracked(shortIdlePhase, 2, false),
		threads: []maker{judging(plainOwner), entering(idlePhase), ticking(2)}},
	{name: "enter a phase with a limit of its own against expiry", memory: tracked(idlePhase, 3, false),
		threads: []maker{judging(plainOwner), entering(wholePhase), ticking(2)},
		flaws:   []string{"enter stores the phase first"}},
	{large: true, name: "touch and enter against expiry", memory: tracked(idlePhase, 3, false),
		threads: []maker{judging(plainOwner), touching(1), entering(shortIdlePhase), ticking(2)},
		flaws:   []string{"next reads the phase last"}},
	{name: "await against expiry", memory: tracked(waitPhase, 6, false),
		threads: []maker{judging(plainOwner), awaiting, ticking(1)},
		flaws:   []string{"await waits before it pays", "next reads what is paid before the wait", "place does not look again", "hasten comes before the wait"}},
	{name: "pause against expiry", memory: tracked(readPhase, 3, true),
		threads: []maker{judging(plainOwner), pausing, ticking(1)},
		flaws:   []string{"next reads the clock last"}},
	{name: "a byte that is delivered against expiry by the wait for it", memory: tracked(readPhase, 3, true),
		threads: []maker{judging(plainOwner), delivering, ticking(1)},
		flaws:   deliveryFlaws},
	{name: "a byte that is delivered against expiry by idleness", memory: tracked(idlePhase, 3, true),
		threads: []maker{judging(plainOwner), delivering, ticking(1)},
		flaws:   deliveryFlaws},
	{name: "a byte that is delivered against an OnTimeout that answers no", memory: tracked(readPhase, 4, true),
		threads: []maker{judging(refusingOwner), delivering, ticking(1)},
		flaws:   append([]string{"OnTimeout has the last word"}, deliveryFlaws[1:]...)},
	{name: "a byte that is delivered against an OnTimeout that answers yes", memory: tracked(readPhase, 4, true),
		threads: []maker{judging(keepingOwner), delivering, ticking(1)}},
	{large: true, name: "a byte that is delivered against Examine", memory: tracked(waitPhase, 4, true).found(modelEvidence{arrived: 1}),
		threads: []maker{judging(openOwner), delivering, ticking(1)},
		flaws:   deliveryFlaws},
	{name: "a byte that is delivered against expiry and Close", memory: tracked(readPhase, 3, true),
		threads: []maker{judging(plainOwner), delivering, closing}},
	{name: "pause against expiry by what was waited in all", memory: tracked(ratePhase, 3, true),
		threads: []maker{judging(plainOwner), pausing, ticking(1)},
		flaws:   []string{"next reads the clock last"}},
	{large: true, name: "a read that ends, and the next, against expiry", memory: tracked(readPhase, 3, true),
		threads: []maker{judging(plainOwner), reading, ticking(2)},
		flaws:   []string{"next reads the clock last"}},
	{large: true, name: "a read that ends, and the next, against expiry by what was waited in all", memory: tracked(ratePhase, 3, true),
		threads: []maker{judging(plainOwner), reading, ticking(2)},
		flaws:   []string{"await waits before it pays"}},
	{name: "enter in a pause against expiry", memory: tracked(ratePhase, 6, false).pausedAt(3),
		threads: []maker{judging(plainOwner), entering(ratePhase), ticking(1)}},
	{name: "two closes and a touch against expiry", memory: tracked(idlePhase, 4, false),
		threads: []maker{judging(plainOwner), closing, closing, touching(1)},
		flaws:   []string{"an end does not look"}},
	{name: "close against expiry", memory: tracked(idlePhase, 4, false),
		threads: []maker{judging(plainOwner), closing, ticking(1)},
		flaws:   []string{"an end does not look"}},
	{name: "close against an OnTimeout that answers no", memory: tracked(idlePhase, 4, false),
		threads: []maker{judging(refusingOwner), closing, ticking(1)},
		flaws:   []string{"a verdict stores instead of swapping", "an end does not look"}},
	{name: "close against an OnTimeout that answers yes", memory: tracked(idlePhase, 4, false),
		threads: []maker{judging(keepingOwner), closing, ticking(1)},
		flaws:   []string{"a verdict stores instead of swapping"}},
	{name: "a read that ends, and the next, against an OnTimeout that answers yes", memory: tracked(readPhase, 4, true),
		threads: []maker{judging(keepingOwner), reading, ticking(1)},
		flaws:   []string{"restart stores the wait"}},
	{name: "a read that ends, and the next, against an OnTimeout of a rate that answers yes", memory: tracked(ratePhase, 4, true),
		threads: []maker{judging(keepingOwner), reading, ticking(1)},
		flaws:   []string{"letOff does not move the pause"},
		late:    paidTwice},
	{large: true, name: "a read that ends, and the next, against a rate that looks missed", memory: tracked(ratePhase, 4, true).unmeasured(),
		threads: []maker{judging(plainOwner), reading, ticking(3)},
		flaws:   []string{"measure lets off before it is exact", "letOff does not move the pause"},
		late:    paidTwice},
	{name: "a short read, and the next, against a rate that looks missed", memory: tracked(ratePhase, 4, true).unmeasured(),
		threads: []maker{judging(plainOwner), reading, ticking(2)},
		flaws:   []string{"measure lets off before it is exact"},
		late:    paidTwice},
	{name: "await by one who has paid against a rate of the other flow that looks missed", memory: tracked(ratePhase, 4, false).unmeasured().pausedAt(2).paidUpTo(5).slowOther(),
		threads: []maker{judging(plainOwner), awaiting, ticking(2)},
		flaws:   []string{"letOff moves nothing if nothing is to be paid", "await reads the clock before the wait"},
		late:    paidTwice},
	{name: "pause against a rate that looks missed", memory: tracked(ratePhase, 4, true).unmeasured(),
		threads: []maker{judging(plainOwner), pausing, ticking(2)}},
	{name: "enter against a touch", memory: tracked(idlePhase, 3, false).placedAt(3),
		threads: []maker{entering(shortIdlePhase), touching(1), ticking(2)}},
	{name: "enter against a read that ends", memory: tracked(readPhase, 3, true).placedAt(4),
		threads: []maker{entering(waitPhase), pausing, ticking(1)},
		flaws:   []string{"enter stores the wait"}},
	{name: "enter against await within a tick", memory: tracked(ratePhase, 4, false).pausedAt(2).placedAt(far),
		threads: []maker{entering(ratePhase), awaiting},
		late:    paidTwice},
	{name: "enter against await", memory: tracked(idlePhase, 3, false).placedAt(3),
		threads: []maker{entering(waitPhase), awaiting, ticking(2)},
		limit:   "an Enter that is preempted for a tick, while a wait begins, has that wait and its rate count from the Enter"},
	{name: "beat against enter", memory: tracked(shortBeatPhase, 3, false).placedAt(3),
		threads: []maker{beating, entering(beatPhase), ticking(2)}},
	{name: "beat against expiry", memory: tracked(shortBeatPhase, 3, false),
		threads: []maker{judging(plainOwner), beating, ticking(2)},
		flaws:   []string{"next reads the clock last"}},
	{name: "beat against an OnTimeout that answers yes", memory: tracked(shortBeatPhase, 4, false),
		threads: []maker{judging(keepingOwner), beating, ticking(1)}},
	{name: "beat against Examine of unread bytes", memory: tracked(shortBeatPhase, 4, false).found(modelEvidence{unread: true}),
		threads: []maker{judging(openOwner), beating, ticking(2)}},
	{name: "touch against a ping that is not answered", memory: tracked(pingPhase, 4, false).pingedAt(3),
		threads: []maker{judging(plainOwner), touching(1), ticking(1)},
		flaws:   []string{"next reads the clock last"}},
	{name: "enter against a ping that is not answered", memory: tracked(pingPhase, 5, false).pingedAt(3),
		threads: []maker{judging(plainOwner), entering(pingPhase), ticking(1)},
		flaws:   []string{"next reads the state last"}},
	{name: "enter a phase with a limit of its own against a ping", memory: tracked(pingPhase, 4, false),
		threads: []maker{judging(plainOwner), entering(wholePhase), ticking(2)},
		flaws:   []string{"a ping moves the beginning of the phase"}},
	{name: "enter a phase with a ping of its own against a ping", memory: tracked(pingPhase, 4, false),
		threads: []maker{judging(plainOwner), entering(rarePingPhase), ticking(2)},
		flaws:   []string{"a ping counts from when it is sent"}},
	{name: "touch against Examine", memory: tracked(shortIdlePhase, 4, false).found(modelEvidence{arrived: 3}),
		threads: []maker{judging(openOwner), touching(1), ticking(2)},
		flaws:   []string{"evidence stores instead of raising", "Examine has the last word"}},
	{name: "enter against Examine", memory: tracked(shortIdlePhase, 4, false).found(modelEvidence{arrived: 3}),
		threads: []maker{judging(openOwner), entering(idlePhase), ticking(1)}},
	{name: "close against Examine", memory: tracked(shortIdlePhase, 4, false).found(modelEvidence{arrived: 3}),
		threads: []maker{judging(openOwner), closing, ticking(2)},
		flaws:   []string{"an end does not look"}},
	{name: "touches against Examine of unread bytes", memory: tracked(shortIdlePhase, 4, false).found(modelEvidence{arrived: 4, unread: true}),
		threads: []maker{judging(openOwner), touching(2), ticking(2)}},
	{name: "enter against Examine of unread bytes", memory: tracked(shortIdlePhase, 4, false).found(modelEvidence{unread: true}),
		threads: []maker{judging(openOwner), entering(idlePhase), ticking(2)}},
	{name: "close against Examine of unread bytes", memory: tracked(shortIdlePhase, 4, false).found(modelEvidence{unread: true}),
		threads: []maker{judging(openOwner), closing, ticking(1)},
		flaws:   []string{"an end does not look"}},
	{large: true, name: "a write that ends, and the next, against Examine that finds nothing to wait for", memory: tracked(waitPhase, 4, true).found(modelEvidence{empty: true}),
		threads: []maker{judging(openOwner), reading, ticking(1)},
		flaws:   []string{"Examine has the last word"},
		late:    paidTwice},
	{large: true, name: "a read that ends, and the next, against Examine of a rate with unread bytes", memory: tracked(ratePhase, 4, true).found(modelEvidence{unread: true}),
		threads: []maker{judging(openOwner), reading, ticking(1)}},
	{name: "touch against Examine of a limit, when another one is passed as well", memory: tracked(waitPhase, 4, true).found(modelEvidence{arrived: 3}),
		threads: []maker{judging(openOwner), touching(1), ticking(1)},
		flaws:   []string{"a limit that nobody examined ends it"}},
	{name: "touch against Examine before and after an OnTimeout that answers no", memory: tracked(shortIdlePhase, 4, false).found(modelEvidence{arrived: 1}),
		threads: []maker{judging(thoroughOwner), touching(1), ticking(2)},
		flaws:   []string{"OnTimeout has the last word"}},
	{name: "use against expiry", memory: tracked(shortBeatPhase, 4, false).beatAt(3),
		threads: []maker{judging(plainOwner), using, beating, ticking(1)},
		flaws:   []string{"next reads the clock last"}},
	{name: "two uses against enter", memory: tracked(shortIdlePhase, 3, false).placedAt(3),
		threads: []maker{using, entering(idlePhase), ticking(2)},
		flaws:   []string{"a stamp is stored"}},
	{name: "touch against Examine of unread bytes, when the limit isn't one that bytes restart", memory: tracked(wholePhase, 4, false).found(modelEvidence{unread: true}),
		threads: []maker{judging(openOwner), touching(1), ticking(2)}},
	{name: "enter against an OnTimeout of a rate that answers yes", memory: tracked(ratePhase, 4, true),
		threads: []maker{judging(keepingOwner), entering(ratePhase), ticking(1)},
		late:    paidTwice},
	{name: "touch against a replaced policy", memory: tracked(idlePhase, 3, false).touchedAt(3).placedAt(6).replaceable(idlePhase),
		threads: []maker{replacing(shortIdlePhase), touching(1), ticking(2)},
		flaws:   []string{"a visit does not place"}},
	{name: "touch against expiry by a policy that is replaced", memory: tracked(shortIdlePhase, 3, false).replaceable(shortIdlePhase),
		threads: []maker{judging(plainOwner), replacing(idlePhase), touching(1), ticking(2)},
		flaws:   []string{"an end does not compare the limits"}},
	{name: "await against a replaced policy", memory: tracked(idlePhase, 4, false).touchedAt(4).pausedAt(3).placedAt(7).replaceable(idlePhase),
		threads: []maker{replacing(ratePhase), awaiting, ticking(2)},
		flaws:   []string{"what was not noted counts", "await hastens by an older phase", "a policy that comes before the wait has it pay for nothing"}},
	{name: "a read that ends, and the next, against a replaced policy", memory: tracked(idlePhase, 4, true).touchedAt(4).placedAt(7).replaceable(idlePhase),
		threads: []maker{replacing(ratePhase), reading, ticking(2)}},
	{large: true, name: "await against expiry by a policy that is replaced", memory: tracked(idlePhase, 5, false).touchedAt(4).pausedAt(2).replaceable(idlePhase),
		threads: []maker{judging(plainOwner), replacing(ratePhase), awaiting, ticking(1)},
		flaws:   []string{"what was not noted counts"}},
	{name: "enter a phase that is replaced", memory: tracked(wholePhase, 2, false).placedAt(9).replaceable(idlePhase),
		threads: []maker{entering(idlePhase), replacing(shortIdlePhase), touching(1), ticking(1)},
		flaws:   []string{"enter hastens by limits that were replaced"}},
	{large: true, name: "enter against expiry by a policy that is replaced", memory: tracked(idlePhase, 3, false).replaceable(idlePhase),
		threads: []maker{judging(plainOwner), entering(idlePhase), replacing(shortIdlePhase), ticking(1)}},
}
