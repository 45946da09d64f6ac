package main

import (
	"math/rand/v2"
	"time"
)

// A kind is what a connection does with its life.
type kind uint8

const (
	active kind = iota // is active all the time
	silent             // falls silent, and is to be timed out as idle
	leaver             // falls silent, but ends by itself in time
	beater             // beats under a passive heartbeat; some stop
	pinged             // answers the pings of an active heartbeat; some stop
	worker             // begins to work instead of falling silent; some finish, and are silent then
	numKinds
)

func (k kind) String() string {
	return [numKinds]string{"active", "silent", "leaving", "beating", "pinged", "busy"}[k]
}

// beats reports whether the kind lives under a heartbeat.
func (k kind) beats() bool { return k == beater || k == pinged }

// A life is what a connection is going to do, in time since the start.
type life struct {
	quit uint32 // in ms; its last activity is before this
	kind kind
	stay uint8 // leaver: how long it stays then, in 256ths of the idle timeout; worker: how long it works
}

// never is when those quit that do not.
const never = 1<<32 - 1

// doomed reports whether the life ends in a timeout.
func (l life) doomed() bool { return l.quit != never && l.kind != leaver }

// quiet reports whether nothing is done any more at the given time, in ns.
func (l life) quiet(now int64) bool {
	return l.quit != never && now >= int64(l.quit)*int64(time.Millisecond)
}

// leaves reports whether a leaver ends at the given time.
func (l life) leaves(now int64, idle time.Duration) bool {
	return l.kind == leaver && l.quiet(now-int64(idle)/256*int64(l.stay))
}

// longestWork is how long work lasts that is not forever.
func (c *config) longestWork() time.Duration { return c.duration / 2 }

// works reports whether a worker is at work at the given time.
func (l life) works(now int64, longest time.Duration) bool {
	return l.quiet(now) && (l.stay == forever || !l.quiet(now-int64(longest)/forever*int64(l.stay)))
}

// forever is the stay of a worker that does not finish.
const forever = 1<<8 - 1

// Of those that are not active all the time, so many in a hundred are of each
// kind; without heartbeats the rest of them is silent too.
const (
	leaverShare = 20
	beaterShare = 20
	pingedShare = 10
	workerShare = 2 // if connections are steered
)

// A planner draws lives, the same ones from the same seed.
type planner struct {
	cfg config
	rnd *rand.Rand
}

func newPlanner(cfg config) *planner {
	return &planner{cfg, rand.New(rand.NewPCG(cfg.seed, 0))}
}

func (p *planner) next() life {
	l := life{kind: p.kind(), quit: never}
	// An odd chance, so that the draws of one connection are independent.
	lasts := l.kind == active || l.kind.beats() && p.rnd.IntN(2) == 0
	if !lasts {
		l.quit = uint32(p.rnd.Int64N(int64(p.cfg.quits())) / int64(time.Millisecond))
	}
	if l.kind == leaver {
		// With a sweep's delay at either end it still is gone in time.
		l.stay = uint8(16 + p.rnd.IntN(64))
	}
	if l.kind == worker {
		l.stay = uint8(min(forever, p.rnd.IntN(2*forever))) // half of them work forever
	}
	return l
}

func (p *planner) kind() kind {
	if p.rnd.Float64() < p.cfg.active {
		return active
	}
	n := p.rnd.IntN(100)
	switch {
	case n < leaverShare:
		return leaver
	case p.cfg.scenario.steers() && n < leaverShare+workerShare:
		return worker
	case p.cfg.Heartbeat == 0:
		return silent
	case n < leaverShare+beaterShare:
		return beater
	case n < leaverShare+beaterShare+pingedShare:
		return pinged
	}
	return silent
}
