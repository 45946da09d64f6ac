package main

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/spread"
	"github.com/idlewheel/idlewheel/bench/internal/table"
	"github.com/idlewheel/idlewheel/idle"
)

// An oracle knows what every connection did, and judges what the tracker made
// of it.
//
// Ground rules:
//
//   - It goes by what happened, not by what was planned. If the machine stalls
//     and a connection that was to be active is not, it has to be closed.
//   - An activity is noted at the time just before it, after it is done. So an
//     expiry within the limit of the noted time is early for certain. There is
//     no slack.
//   - A connection may be given up in the very moment in which it comes back
//     too late. Its activity is marked as belated; an expiry after it was
//     decided upon before it, and is counted as a draw, not as early. So is
//     the expiry of a remote connection that had ended after its limit, or
//     whose end the server had not noticed by then.
type oracle struct {
	limits    limits
	allowance time.Duration // after so much more than its limit a connection is missed

	doomed atomic.Int64 // how many closed that were meant to

	mu        sync.Mutex
	judgement judgement
	late      *spread.Spread
}

// A judgement counts connections by what became of them.
type judgement struct {
	Expected    int     `json:"expected"`     // had to be closed
	Closed      int     `json:"closed"`       // by the tracker
	Early       int     `json:"early"`        // of those, before they were due, or when they had ended
	EarliestMS  float64 `json:"earliest_ms"`  // how early the earliest was
	ByHand      int     `json:"by_hand"`      // of those closed, from the page of -http
	WrongReason int     `json:"wrong_reason"` // of those closed, for another reason than theirs
	Draws       int     `json:"draws"`        // of those closed, while they were coming back or ending too late
	Missed      int     `json:"missed"`       // not closed, though due for longer than the allowance
	Live        int     `json:"live"`         // not closed, and not due, or only just
	Left        int     `json:"left"`         // ended by themselves
}

// A peer is what the oracle knows of a connection.
type peer struct {
	last  atomic.Int64 // its last activity, in ns; the lowest bit marks a belated one
	state atomic.Uint32
	id    uint32 // which connection it is
	life
}

// The states of a peer.
const (
	unborn   = iota
	settling // its own limit is about to take the place of the idle timeout
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
	quiet := p.quiet(now)
	switch {
	case p.kind == pinged:
		return nothing // but answer pings
	case p.kind == beater && !quiet:
		return beats
	case p.kind == beater && p.id%2 == 0:
		return talks // it stops to beat, but not to talk, which must not save it
	case p.kind == worker && quiet:
		return p.job(now, cfg.longestWork())
	case p.leaves(now, cfg.Idle):
		return leaves
	case !quiet:
		return touches
	}
	return nothing
}

// job returns what a worker does that has ceased to be active.
func (p *peer) job(now int64, longest time.Duration) action {
	switch state := p.state.Load(); {
	case state == open:
		return works
	case state == working && !p.works(now, longest):
		return rests
	}
	return nothing
}

// ended reports whether p is closed, by whomever.
func (p *peer) ended() bool { return p.state.Load() >= expired }

// begin notes that p is about to begin, under its own limit or, if it is
// settling, under the idle timeout first.
func (p *peer) begin(before int64, state uint32) {
	p.last.Store(before &^ belated)
	p.state.Store(state)
}

// began reports whether begin was called, as an interrupted set-up may not have.
func (p *peer) began() bool { return p.state.Load() != unborn }

// settled notes that p is under its own limit now.
func (p *peer) settled() { p.state.CompareAndSwap(settling, open) }

// touched notes an activity of p that has just happened, between two times.
// The activities of a peer must be noted one after the other.
func (o *oracle) touched(p *peer, before, after int64) {
	mark := before &^ belated
	if after-p.last.Load()&^belated >= int64(o.limits.of(p.kind).after) {
		mark |= belated
	}
	p.last.Store(mark)
}

// left notes that p has ended by itself, before it was timed out.
func (o *oracle) left(p *peer) {
	if !p.state.CompareAndSwap(open, left) {
		return // expired has counted it as early already
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.judgement.Left++
}

// expired judges that the tracker has closed p.
func (o *oracle) expired(p *peer, now int64, reason idle.Reason) {
	was := p.state.Swap(expired)
	last := p.last.Load()
	silence := time.Duration(now - last&^belated)
	due := o.limits.of(p.kind)
	if was == settling {
		due.after = min(due.after, o.limits.Idle)
	}
	if was < expired && p.doomed() {
		o.doomed.Add(1)
	}

	o.mu.Lock()
	defer o.mu.Unlock()
	j := &o.judgement
	j.Closed++
	switch {
	case was == left && o.limits.Remote && silence >= due.after:
		j.Left--
		j.Draws++
	case was == left:
		j.Left--
		j.Early++
	case was == expired:
		j.Early++
	case silence < due.after && last&belated == 0:
		j.Early++
		j.EarliestMS = max(j.EarliestMS, table.Millis(due.after-silence))
	case reason != due.reason && was != settling:
		j.WrongReason++
	case silence < due.after:
		j.Draws++
	default:
		o.late.Add(silence - due.after)
	}
}

// endedByHand notes that somebody has ended p from the page. That is always right.
func (o *oracle) endedByHand(p *peer) {
	if p.state.Swap(expired) < expired && p.doomed() {
		o.doomed.Add(1)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.judgement.Closed++
	o.judgement.ByHand++
}

// judge completes the judgement with those that were not closed by the given
// time, since when the tracker has been stopped.
func (o *oracle) judge(now int64, peers []peer) judgement {
	o.mu.Lock()
	defer o.mu.Unlock()
	j := o.judgement
	for i := range peers {
		p := &peers[i]
		if p.ended() || !p.began() {
			continue
		}
		if time.Duration(now-p.last.Load()&^belated)-o.limits.of(p.kind).after > o.allowance {
			j.Missed++
		} else {
			j.Live++
		}
	}
	j.Expected = j.Closed - j.Early + j.Missed
	return j
}

// closed returns how many the tracker has closed so far, and how many of them
// wrongly.
func (o *oracle) closed() (n, wrong int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.judgement.Closed, o.judgement.Early + o.judgement.WrongReason
}

func newOracle(l limits) *oracle {
	return &oracle{limits: l, allowance: 2*l.Tick + time.Second, late: spread.New()}
}
