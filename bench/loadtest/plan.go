package main

import (
	"cmp"
	"math/rand/v2"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// pongAfter is how long the answer to a ping, or an overdue beat, may take.
func (c *config) pongAfter() time.Duration { return c.heartbeat / 2 }

// staleAfter is how long a connection under a heartbeat may be silent.
func (c *config) staleAfter() time.Duration { return c.heartbeat + c.pongAfter() }

// longest is the longest limit of any connection.
func (c *config) longest() time.Duration { return max(c.idle, c.staleAfter()) }

// sweepTime is how often every connection gets its chance to be active: four times
// within its limit.
func (c *config) sweepTime() time.Duration {
	return min(c.idle, cmp.Or(c.staleAfter(), c.idle)) / 4
}

// of returns after how long a silent connection of a kind is due, and for which reason.
func (c *config) of(k kind) (after time.Duration, reason idle.Reason) {
	if k.beats() {
		return c.staleAfter(), idle.ReasonHeartbeat
	}
	return c.idle, idle.ReasonIdle
}

// policy is what all connections begin under. A scenario ends them by other means.
func (c *config) policy() idle.Policy {
	p := idle.Policy{Name: "open", IdleTimeout: c.idle}
	if c.isSteered() {
		p.IdleTimeout = 10 * day
	}
	return p
}

// phases returns those for connections that beat, and for those that are pinged. Beats
// aren't use, so beating connections have no IdleTimeout.
func (c *config) phases(t *idle.Tracker) (beats, pings *idle.Phase, err error) {
	beat, ping := idle.Policy{Name: "beating"}, idle.Policy{Name: "pinged"} // of nobody, without heartbeats
	if c.heartbeat > 0 {
		ping.Heartbeat = idle.Heartbeat{Interval: c.heartbeat, Timeout: c.pongAfter()}
		beat.Heartbeat = ping.Heartbeat
		beat.Heartbeat.Passive = true
	}
	if beats, err = t.Phase(beat); err == nil {
		pings, err = t.Phase(ping)
	}
	return beats, pings, err
}

// A kind is what a connection does with its life.
type kind uint8

const (
	active kind = iota // is active all the time
	silent             // falls silent, and has to be closed as idle
	leaver             // falls silent, but ends by itself in time
	beater             // beats under a passive heartbeat; some stop
	pinged             // answers the pings of an active heartbeat; some stop
	worker             // in a scenario: begins to work instead of falling silent; some finish, and are silent then
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

const (
	never   = 1<<32 - 1 // when those quit that don't
	forever = 1<<8 - 1  // the stay of a worker that doesn't finish
)

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

// works reports whether a worker is at work at the given time, if work takes so long at
// most that isn't forever.
func (l life) works(now int64, longest time.Duration) bool {
	return l.quiet(now) && (l.stay == forever || !l.quiet(now-int64(longest)/forever*int64(l.stay)))
}

// A planner draws lives, the same ones each time.
type planner struct {
	cfg config
	rnd *rand.Rand
}

func newPlanner(cfg config) *planner { return &planner{cfg, rand.New(rand.NewPCG(1, 0))} }

func (p *planner) next() life {
	l := life{kind: p.kind(), quit: never}
	if lasts := l.kind == active || l.kind.beats() && p.rnd.IntN(2) == 0; !lasts {
		l.quit = uint32(p.rnd.Int64N(int64(p.cfg.quits())) / int64(time.Millisecond))
	}
	switch l.kind {
	case leaver: // with the delay of a sweep at either end it still is gone in time
		l.stay = uint8(16 + p.rnd.IntN(64))
	case worker: // half of them work forever
		l.stay = uint8(min(forever, p.rnd.IntN(2*forever)))
	}
	return l
}

func (p *planner) kind() kind {
	n := p.rnd.IntN(200) - 100 // half of the connections are active
	switch {
	case n < 0:
		return active
	case n < 20:
		return leaver
	case n < 22 && p.cfg.isSteered():
		return worker
	case p.cfg.heartbeat == 0 || n >= 50:
		return silent
	case n < 40:
		return beater
	}
	return pinged
}

// quits returns until when connections fall silent.
func (c *config) quits() time.Duration {
	if c.isSteered() {
		return time.Duration(c.scenario.quits * float64(c.duration))
	}
	return c.duration - c.longest()
}
