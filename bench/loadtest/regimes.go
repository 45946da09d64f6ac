package main

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/table"
	"github.com/idlewheel/idlewheel/idle"
	"github.com/idlewheel/idlewheel/idle/pressure"
)

// A regime is an idle timeout that came into force between two times, and is in force
// until the next one is.
type regime struct {
	since, by int64
	limit     time.Duration
}

// inForce is the window of a connection that was active last at a given time: it opens
// when the connection has been silent for the limit of a regime that may still be in
// force, and ends when it has been so for that of one which surely is.
func inForce(s *steering, e *end, _ *peer) (from, due int64) {
	return window(s.regimes, e.last&^belated, s.pass(), s.allowance())
}

// window is inForce. A regime may be followed for a pass longer, and need not be so by
// those who are due less than the allowance before the next one.
func window(regimes []regime, last, pass, allowance int64) (from, due int64) {
	from, due = noTime, noTime
	for i, r := range regimes {
		until, next := int64(noTime), int64(noTime)
		if i+1 < len(regimes) {
			until, next = regimes[i+1].by+pass, regimes[i+1].since
		}
		passed := last + int64(r.limit)
		if f := max(passed, r.since); f <= until {
			from = min(from, f)
		}
		if d := max(passed, r.by); d <= next-allowance {
			due = min(due, d)
		}
	}
	return from, due
}

// enact begins a regime: change brings it into force before it returns.
func (s *steering) enact(limit time.Duration, change func() error) error {
	r := regime{since: s.now(), limit: limit}
	err := change()
	r.by = s.now()
	s.regimes = append(s.regimes, r)
	return err
}

// reload makes the limit shorter, and then long again.
func reload(ctx context.Context, s *steering) error {
	s.regimes = []regime{{limit: s.cfg.Rest}}
	set := func(limit time.Duration) error {
		return s.enact(limit, func() error { return s.tracker.SetPolicy(idle.Policy{IdleTimeout: limit}) })
	}
	if err := set(s.cfg.Idle); err != nil || !s.await(ctx, 0.5) {
		return err
	}
	err := set(s.cfg.Rest)
	s.await(ctx, 1)
	return err
}

// checkReload finds out when the last one was ended that was overdue.
func checkReload(s *steering) {
	if len(s.regimes) < 2 {
		return
	}
	change := s.regimes[1]
	var last int64
	for i := range s.ends {
		if e := &s.ends[i]; e.reason != 0 && e.last+int64(change.limit) < change.since {
			last = max(last, e.at-change.since)
		}
	}
	s.rep.WalkS = table.Round(time.Duration(last).Seconds(), 3)
	s.limit("walk_s", s.rep.WalkS, s.walkLimit().Seconds())
	checkRegimes(s)
}

// checkRegimes checks that some connections were ended.
func checkRegimes(s *steering) {
	if s.oracle.late.Count() == 0 {
		s.fail("nobody was ended")
	}
}

// press changes the pressure.
func press(ctx context.Context, s *steering) error {
	s.regimes = []regime{{limit: s.cfg.Rest}}
	var reading atomic.Uint64
	every := max(s.cfg.duration/400, s.cfg.Tick)
	follower, err := pressure.Follow(s.tracker, pressure.Config{
		Read:   func() (float64, error) { return math.Float64frombits(reading.Load()), nil },
		Policy: idle.Policy{IdleTimeout: s.cfg.Idle},
		Every:  every,
	})
	if err != nil {
		return err
	}
	for i, to := range []float64{0.5, 1, 0} {
		limit := s.cfg.Rest - time.Duration(to*float64(s.cfg.Rest-s.cfg.Idle))
		s.enact(limit, func() error {
			reading.Store(math.Float64bits(to))
			return s.feel(ctx, follower, to, every)
		})
		if !s.await(ctx, 0.25*float64(i+2)) {
			break
		}
	}
	return nil
}

// feel waits until the limits follow a pressure. It falls after ten readings.
func (s *steering) feel(ctx context.Context, follower *pressure.Follower, want float64, every time.Duration) error {
	for begun := time.Now(); follower.Pressure() != want; {
		if time.Since(begun) > 20*every+time.Second {
			s.fail("the pressure was %v, not %v, after %v", follower.Pressure(), want, time.Since(begun))
			return nil
		}
		if !program.Sleep(ctx, s.cfg.Tick) {
			return nil
		}
	}
	return nil
}
