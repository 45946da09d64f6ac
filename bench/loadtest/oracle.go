package main

import (
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/table"
	"github.com/idlewheel/idlewheel/idle"
)

// A peer is what the oracle knows of a connection: what it does, and how it ended.
//
// Ground rules:
//
//   - The oracle goes by what happened, and not by what was planned. If the machine stalls, and a
//     connection that was to be active is not, it has to be closed.
//   - An activity is noted with the time just before it, after it is done. So an end within the
//     limit of the noted time is early for certain, and there is no slack.
//   - A connection may be ended in the moment in which it becomes active again, too late. Such an
//     activity is marked as belated. An end after it was decided before it, and counts as a draw,
//     not as early.
type peer struct {
	last  atomic.Int64 // its last activity, in ns; the lowest bit marks a belated one
	state atomic.Uint32
	id    uint32 // which connection it is
	life
	end end
}

// An end is what is known of a connection when it ends.
type end struct {
	at, last int64 // last is as peer.last
	state    uint32
	reason   idle.Reason
	again    bool // it has ended twice, or after it had left
}

// The states of a peer.
const (
	unborn = iota
	open
	working
	rested // after work
	expired
	left
)

const belated = 1

// An action is what a peer does when a sweep comes past.
type action uint8

const (
	nothing action = iota
	touches
	beats
	talks // without being active
	leaves
	works
	rests
)

// does returns what p does at the given time.
func (p *peer) does(now int64, cfg *config) action {
	quiet, state := p.quiet(now), p.state.Load()
	switch {
	case p.kind == pinged:
		return nothing // it only answers pings
	case p.kind == beater && !quiet:
		return beats
	case p.kind == beater && p.id%2 == 0:
		return talks // it stops to beat, but not to talk, which must not save it
	case p.kind == worker && quiet && state == open:
		return works
	case p.kind == worker && state == working && !p.works(now, cfg.duration/2):
		return rests
	case p.leaves(now, cfg.idle):
		return leaves
	case !quiet:
		return touches
	}
	return nothing
}

// ended reports whether p is closed, by whomever.
func (p *peer) ended() bool { return p.state.Load() >= expired }

// begin notes that p is about to begin.
func (p *peer) begin(before int64) {
	p.last.Store(before &^ belated)
	p.state.Store(open)
}

// touched notes an activity of p, which has a limit, that has just happened between two times.
// The activities of a peer must be noted one after the other.
func (p *peer) touched(before, after int64, limit time.Duration) {
	mark := before &^ belated
	if after-p.last.Load()&^belated >= int64(limit) {
		mark |= belated
	}
	p.last.Store(mark)
}

// left notes that p has ended by itself. If the tracker has ended it before, it is early.
func (p *peer) left() {
	if p.state.Swap(left) == expired {
		p.end.again = true
	}
}

// expired notes that the tracker has ended p.
func (p *peer) expired(now int64, reason idle.Reason) {
	was := p.state.Swap(expired)
	p.end = end{now, p.last.Load(), was, reason, was >= expired}
}

// A judgement counts connections by what became of them.
type judgement struct {
	Expected    int     `json:"expected"`     // had to be closed
	Closed      int     `json:"closed"`       // by the tracker
	Early       int     `json:"early"`        // of those, before they were due, or when they had ended
	EarliestMS  float64 `json:"earliest_ms"`  // how early the earliest was
	WrongReason int     `json:"wrong_reason"` // of those closed, for another reason than theirs
	Draws       int     `json:"draws"`        // of those closed, while they became active again, too late
	Missed      int     `json:"missed"`       // not closed, though due for longer than the allowance
	Live        int     `json:"live"`         // not closed, and not due, or only just
	Left        int     `json:"left"`         // ended by themselves
}

// judge adds what became of p until the given end of the run.
func (j *judgement) judge(p *peer, over int64, l *load) {
	window := l.cfg.scenario.window
	switch state := p.state.Load(); state {
	case unborn:
		return
	case left:
		if j.Left++; p.end.again {
			j.Closed++
			j.Early++
		}
		return
	case expired:
		j.Closed++
	default:
		now := end{at: over, last: p.last.Load(), state: state}
		if _, due, _ := window(l, p.kind, &now); due != noTime && due+l.allowance() < over {
			j.Missed++
		} else {
			j.Live++
		}
		return
	}
	e := &p.end
	from, due, reason := window(l, p.kind, e)
	// An end that comes too early may have been decided before what makes it so: a belated
	// activity, or work that has only just begun.
	excused := e.last&belated != 0 || e.state == working && e.at-e.last <= int64(l.longest)
	switch {
	case e.again || e.at < from && !excused:
		j.Early++
		if from != noTime {
			j.EarliestMS = max(j.EarliestMS, table.Millis(time.Duration(from-e.at)))
		}
	case e.reason != reason:
		j.WrongReason++
	case e.at < from:
		j.Draws++
	case due != noTime:
		l.late.Add(time.Duration(max(0, e.at-due)))
	}
}
