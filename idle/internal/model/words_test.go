package model

// modelWords are the words of a Conn, with one flow, from which its deadlines follow.
type modelWords struct {
	phase, from               int8 // its limits, and since when those count that the policy before didn't have
	state                     modelState
	wait                      modelWait
	stamp, used, unread, paid int8 // stamp is lastIn
	began, beat, pinged       int8
}

type modelWait struct {
	since int8 // when it began or, if it is over, ended
	on    bool
	moved int8 // how often it was moved by a trifle, by letOff
}

type modelState struct {
	live, ending, asking bool
	pinged               bool // and unanswered
	exact                bool // waits are measured by the real clock
}

// What can be due in the model, in the order in which ties are decided.
const (
	byIdle = int8(1 + iota)
	byRead
	byRate
	byBeat
	byPhase
	toPing
	byMiss
	toMeasure
)

// slow is the part of rate after which waits are measured.
type modelLimits struct{ idle, read, rate, slow, beats, whole, ping, pong int8 }

// Phases of the model.
const (
	noPhase = int8(iota)
	idlePhase
	shortIdlePhase
	readPhase
	ratePhase
	wholePhase
	waitPhase
	beatPhase
	shortBeatPhase
	pingPhase
	rarePingPhase
)

var modelPhases = []modelLimits{
	idlePhase:      {idle: 2},
	shortIdlePhase: {idle: 1},
	readPhase:      {read: 2},
	ratePhase:      {rate: 2, slow: 1},
	wholePhase:     {whole: 2},
	waitPhase:      {read: 2, rate: 2, slow: 1},
	beatPhase:      {idle: 2, beats: 3},
	shortBeatPhase: {idle: 3, beats: 2},
	pingPhase:      {ping: 2, pong: 1},
	rarePingPhase:  {ping: 4, pong: 1},
}

// soonest is the earliest deadline of a limit that counts from the given tick, waits aside.
func (p modelLimits) soonest(from int8) int8 {
	at := far
	for _, limit := range []int8{p.idle, p.beats, p.whole, p.ping} {
		if limit > 0 {
			at = min(at, from+1+limit)
		}
	}
	return at
}

// soonestOfWait is the same for a wait that begins then, the rate aside.
func (p modelLimits) soonestOfWait(from int8) int8 {
	if p.read > 0 {
		return from + 1 + p.read
	}
	return far
}

// countsFrom reports whether a limit depends on the word of that name.
func (p modelLimits) countsFrom(word string) bool {
	switch word {
	case "state":
		return p.ping+p.rate > 0
	case "wait":
		return p.read+p.rate > 0
	case "pinged":
		return p.ping > 0
	case "stamp":
		return p.idle+p.read+p.ping > 0
	case "unread":
		return p.idle+p.read+p.ping+p.whole > 0
	case "used":
		return p.idle > 0
	case "paid":
		return p.rate > 0
	case "began":
		return p.whole > 0
	case "beat":
		return p.beats > 0
	}
	return true
}

const far = int8(100)

// limits calls limit for each limit that counts, with the tick that it counts from.
func (w *modelWords) limits(limit func(timeout, from, what int8)) {
	p, heard := &modelPhases[w.phase], max(w.stamp, w.unread)
	limit(p.idle, max(w.used, heard), byIdle)
	if w.wait.on {
		limit(p.read, max(heard, w.wait.since), byRead)
		if w.state.exact {
			limit(p.rate, max(w.paid, w.from), byRate)
		} else {
			limit(p.slow, max(w.paid, w.from), toMeasure)
		}
	}
	limit(p.beats, max(w.beat, w.from), byBeat)
	if whole := p.whole; whole > 0 && w.unread >= w.began+whole {
		limit(whole+1, w.began, byPhase)
	} else {
		limit(whole, w.began, byPhase)
	}
	if !w.state.pinged || heard >= w.pinged {
		limit(p.ping, max(heard, w.pinged), toPing)
	} else {
		limit(p.pong, w.pinged, byMiss)
	}
}

// next returns when which limit is passed first.
func (w *modelWords) next() (at, what int8) {
	at = far
	w.limits(func(timeout, from, r int8) {
		if timeout > 0 && from+1+timeout < at {
			at, what = from+1+timeout, r
		}
	})
	return at, what
}

// due returns which limits are truly passed at the given tick, as bits.
func (m *memory) due(now int8) (all uint16) {
	m.truth.limits(func(timeout, from, r int8) {
		if timeout > 0 && from+1+timeout <= now {
			all |= 1 << r
		}
	})
	return all
}
