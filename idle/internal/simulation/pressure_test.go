package simulation

import (
	"errors"
	"io"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/idlewheel/idlewheel/idle"
	"github.com/idlewheel/idlewheel/idle/pressure"
)

// A simPressure is a Follower, and what the policies have to be according to pressure.Follow.
type simPressure struct {
	follower   *pressure.Follower // nil until Follow has returned
	rest, full map[*idle.Phase]idle.Policy

	level    float64     // of the memory that is in use
	reads    int         // calls of Read
	recent   [10]float64 // the pressure of the last ten readings
	notes    int         // how many there were
	shows    float64
	failures uint64
	fails    bool // the first reading fails, or leads to an invalid policy
	stopped  bool
}

// The range of readings in which the pressure rises. What follows from it has no rounding errors.
const pressedFrom, pressedFull = 0.25, 0.75

// followPressure begins to follow a pressure, or stops.
func (w *world) followPressure(pick uint64) {
	w.mu.Lock()
	w.checkAll()
	if w.pressure != nil {
		w.stopFollowing()
		w.mu.Unlock()
		return
	}
	if w.real()%slackOf(w.tick) < 2*mostVisits { // readings must not be at the same moment as passes
		w.mu.Unlock()
		return
	}
	v := &simPressure{rest: map[*idle.Phase]idle.Policy{}, full: map[*idle.Phase]idle.Policy{}, level: float64(pick/8%65) / 64}
	c := pressure.Config{
		Read: func() (float64, error) { return w.readMemory(v) },
		From: pressedFrom, Full: pressedFull, Every: time.Duration(8+pick/1024%64) * max(w.tick, 8*time.Millisecond),
		Phases: map[*idle.Phase]idle.Policy{},
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	for i, ph := range w.phases {
		rest := ph.Policy()
		full := w.tighter(rest, pick>>i)
		if full == (idle.Policy{}) || i > 0 && pick>>(20+i)%2 == 0 {
			continue
		}
		v.rest[ph], v.full[ph] = rest, full
		if i == 0 && pick%2 == 0 {
			c.Policy = full
		} else {
			c.Phases[ph] = full
		}
	}
	w.pressure = v
	w.mu.Unlock()
	f, err := pressure.Follow(w.tracker, c)
	w.mu.Lock()
	defer w.mu.Unlock()
	if (err != nil) != (v.fails || len(v.full) == 0) {
		w.errorf("at %v: Follow: %v; %+v", w.now(), err, v)
	}
	if v.follower = f; err != nil {
		w.pressure = nil
		for ph, rest := range v.rest {
			if p := ph.Policy(); p != rest {
				w.errorf("at %v: Follow has failed and changed a policy to %+v: %v; %+v", w.now(), p, err, v)
			}
		}
		return
	}
	w.followed++
}

// tighter returns some limits of p that are shorter, for full pressure.
func (w *world) tighter(p idle.Policy, pick uint64) (full idle.Policy) {
	to := durations(&full)
	for i, d := range durations(&p) {
		if *d > 0 && pick>>i%4 > 0 {
			*to[i] = max(*d/time.Duration(2+pick%5), w.tick)
		}
	}
	return full
}

// stopFollowing stops the Follower; w.mu is held.
func (w *world) stopFollowing() {
	v := w.pressure
	if v == nil || v.follower == nil {
		return
	}
	v.stopped = true
	w.pressure = nil
	for _, ph := range w.phases {
		if rest, ok := v.rest[ph]; ok {
			w.forces(ph, rest)
		}
	}
	v.follower.Stop()
	for ph, rest := range v.rest {
		if p := ph.Policy(); p != rest {
			w.errorf("at %v: stopped following at %+v, and not at rest: %+v; %+v", w.now(), p, rest, v)
		}
	}
	if n := v.follower.Pressure(); n != 0 {
		w.errorf("at %v: stopped following at the pressure %v", w.now(), n)
	}
}

// forces notes that the policy of a phase is p from now on; w.mu is held.
func (w *world) forces(ph *idle.Phase, p idle.Policy) {
	if p != ph.Policy() {
		w.follow(ph, p, w.now()+w.walkTime())
	}
}

// readMemory is Config.Read. The policies follow as soon as it has returned.
func (w *world) readMemory(v *simPressure) (float64, error) {
	w.mu.Lock()
	v.reads++
	pick := w.chance("memory", v.reads)
	first := v.follower == nil
	block := !first && !w.quiet && pick%8 == 0
	w.mu.Unlock()
	if block {
		time.Sleep(slackOf(w.tick) * time.Duration(1+pick/8%200)) // at no moment at which a pass runs
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if v.stopped || w.closing {
		return 1, nil // nobody is interested
	}
	if blind := pick / 4096 % 16; blind < 4 {
		v.failures++
		v.fails = first
		switch blind {
		case 0:
			return math.NaN(), nil
		case 1:
			return 1 + 1.0/64, nil
		case 2:
			panic("no memory to read")
		}
		return 1, errors.New("blind")
	}
	v.level = min(max(v.level+float64(int(pick/65536%33)-16)/64, 0), 1)
	v.note(min(max((v.level-pressedFrom)/(pressedFull-pressedFrom), 0), 1))
	unfit := func(ph *idle.Phase) bool {
		return v.full[ph] != (idle.Policy{}) && ph == w.phases[0] && w.areUsed(w.capacity.now, v.now(ph))
	}
	if slices.ContainsFunc(w.phases, unfit) {
		v.failures++
		if v.fails = first; first {
			return v.level, nil
		}
	}
	for _, ph := range w.phases {
		if _, ok := v.full[ph]; ok && !unfit(ph) {
			w.forces(ph, v.now(ph))
		}
	}
	return v.level, nil
}

// now is what the policy of a phase has to be after a reading.
func (v *simPressure) now(ph *idle.Phase) idle.Policy {
	return pressure.Scale(v.rest[ph], v.full[ph], v.shows)
}

// note notes the pressure of a reading: the highest of the last ten counts, but for small changes.
func (v *simPressure) note(n float64) {
	v.recent[v.notes%len(v.recent)] = n
	v.notes++
	highest := slices.Max(v.recent[:])
	if math.Abs(highest-v.shows) >= 0.05 || highest == 0 || highest == 1 {
		v.shows = highest
	}
}

// replaces notes that the program replaces the policy of a phase; w.mu is held.
func (w *world) replaces(ph *idle.Phase, p idle.Policy) {
	if v := w.pressure; v != nil {
		if _, ok := v.full[ph]; ok {
			v.rest[ph] = p
		}
	}
}

// checkPressure holds the Follower against the ledger; w.mu is held.
func (w *world) checkPressure() {
	v := w.pressure
	if v == nil || v.follower == nil {
		return
	}
	if n, failures := v.follower.Pressure(), v.follower.Failures(); n != v.shows || failures != v.failures {
		w.errorf("at %v: the pressure is %v, and %d readings have failed; it must be %+v", w.now(), n, failures, v)
	}
	for ph, rest := range v.rest {
		if p := v.follower.Rest(ph); p != rest {
			w.errorf("at %v: at rest a policy is %+v; it must be %+v", w.now(), p, rest)
		}
	}
}

// checkFollower looks whether the Follower has ended with the tracker.
func (w *world) checkFollower() {
	if v := w.pressure; v != nil && v.follower != nil {
		select {
		case <-v.follower.Done():
		default:
			w.errorf("the tracker is closed, and still followed: %+v", v)
		}
	}
}
