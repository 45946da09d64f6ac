package main

import (
	"context"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/table"
	"github.com/idlewheel/idlewheel/idle"
)

// What drain and shed are held to, in percent.
const (
	mostRateError  = 10
	mostOrderError = 5
	shedShare      = 0.3
	shedCause      = "rebalance"
)

func drain(ctx context.Context, s *steering) error {
	op, err := s.tracker.Drain(idle.Drain{Duration: s.cfg.over, ForceAfter: s.stopAfter()})
	s.awaitOperation(ctx, op)
	return err
}

func shed(ctx context.Context, s *steering) error {
	s.cause = shedCause
	op, err := s.tracker.Shed(idle.Shed{Fraction: shedShare, Cause: shedCause, Duration: s.cfg.over, ForceAfter: s.stopAfter()})
	s.awaitOperation(ctx, op)
	return err
}

// stopAfter is when those are ended that are still busy.
func (s *steering) stopAfter() time.Duration {
	after := s.cfg.over * 5 / 4
	s.stop = s.begun + int64(after)
	return after
}

// awaitOperation waits until op has finished, or should have long ago.
func (s *steering) awaitOperation(ctx context.Context, op *idle.Operation) {
	if op == nil {
		return
	}
	select {
	case <-op.Done():
	case <-ctx.Done():
	case <-time.After(s.stopAfter() + 10*time.Second):
		s.fail("the operation has not finished: %+v", op.Progress())
	}
}

// inTurn is the window of a connection that has its turn. A drain ends all when Over has
// passed, but for those at work. These are ended when they finish, or at Stop.
func inTurn(s *steering, e *end, p *peer) (from, due int64) {
	from, due = s.begun, s.begun+int64(s.cfg.over)
	switch {
	case e.state == working:
		from, due = s.stop, s.stop
	case e.state == rested:
		due = max(due, e.last)
	}
	if s.cfg.scenario.reason == idle.ReasonShed {
		due = noTime // for most
	}
	return from, due
}

// A turn is when a connection had its turn, or ended otherwise, and since when it was
// idle.
type turn struct {
	at, last int64
	counts   bool // it was the operation
	active   bool // its connection may have been active after it, while the order was carried out
}

// turns returns those of all that never worked, in order of time.
func (s *steering) turns() []turn {
	turns := make([]turn, 0, len(s.ends))
	delay := s.delay()
	for i := range s.ends {
		p, e := &s.peers[i], s.ends[i]
		switch {
		case p.kind == worker || !p.began() || e.at != 0 && e.at < s.begun:
		case e.at == 0:
			turns = append(turns, turn{at: noTime, last: p.last.Load()})
		default:
			turns = append(turns, turn{e.at, e.last, e.reason != 0 && e.at < s.stop, e.at-e.last < delay})
		}
	}
	slices.SortFunc(turns, func(a, b turn) int {
		if a.at != b.at {
			return int(min(max(a.at-b.at, -1), 1))
		}
		return int(min(max(a.last-b.last, -1), 1))
	})
	return turns
}

// delay is how long it may take from a turn to the end: two orders, each in a pass.
func (s *steering) delay() int64 { return 5*int64(s.cfg.Tick) + 2*s.pass() }

// inversion returns the greatest time by which one was more idle than another one that
// had its turn before. Those that end within the delay may have had their turns in
// another order.
func inversion(turns []turn, delay int64) (most time.Duration) {
	oldest, later := int64(noTime), len(turns)
	for _, t := range slices.Backward(turns) {
		for later > 0 && turns[later-1].at-delay > t.at {
			later--
			oldest = min(oldest, turns[later].last)
		}
		if t.counts && !t.active {
			most = max(most, time.Duration(t.last-oldest))
		}
	}
	return most
}

// A tally counts by seconds.
type tally [1000]atomic.Int64

func (t *tally) add(at int64) { t[max(0, min(at/int64(time.Second), int64(len(t))-1))].Add(1) }

// rateError returns the deviation, in percent, of the worst second from the mean. It
// leaves out the first second and the last one, which are not full.
func (t *tally) rateError() float64 {
	var seconds []float64
	for i := range t {
		if n := t[i].Load(); n > 0 {
			seconds = append(seconds, float64(n))
		}
	}
	if len(seconds) < 3 {
		return 0
	}
	seconds = seconds[1 : len(seconds)-1]
	var sum, worst float64
	for _, n := range seconds {
		sum += n
	}
	mean := sum / float64(len(seconds))
	for _, n := range seconds {
		worst = max(worst, math.Abs(n-mean))
	}
	return 100 * worst / mean
}

// checkTurns checks the rate and the order.
func checkTurns(s *steering) {
	turns := s.turns()
	oldest := s.begun
	for _, t := range turns {
		oldest = min(oldest, t.last)
	}
	idleRange, off := time.Duration(s.begun-oldest), inversion(turns, s.delay())
	s.rep.OrderErrorPct = table.Round(100*float64(off)/float64(idleRange), 2)
	if off > s.cfg.Tick {
		s.limit("order_error_pct", s.rep.OrderErrorPct, mostOrderError)
	}
	s.rep.RateErrorPct = table.Round(s.told.rateError(), 2)
	s.limit("rate_error_pct", s.rep.RateErrorPct, mostRateError)
}

// checkShed also checks that it was the share that was asked for, by its cause. Leavers
// may leave before they are met.
func checkShed(s *steering) {
	checkTurns(s)
	st := s.tracker.Stats()
	if n := st.Causes[shedCause]; n != st.Shed {
		s.fail("%d of the %d shed have the cause %q", n, st.Shed, shedCause)
	}
	want := shedShare * float64(s.live)
	if off := math.Abs(float64(st.Shed) - want); off > want/50+1 {
		s.fail("%d were shed, not %.0f", st.Shed, want)
	}
}
