package idle

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
	"github.com/idlewheel/idlewheel/idle/internal/turns"
)

// Drain says how [Tracker.Drain] ends all connections.
type Drain struct {
	// Duration is the time over which connections are ended, at an even rate. If many leave by
	// themselves, it takes less. Rate is the alternative: connections per second. If both are 0,
	// all connections have their turn at once.
	Duration time.Duration
	Rate     float64

	// CloseDelay is the time that a connection has to finish after OnDrain was called. If it is
	// 0, the connection is ended when OnDrain has returned. A client that uses its connection
	// meanwhile learns that it has to leave. nginx calls this keepalive_min_timeout.
	CloseDelay time.Duration

	// ForceAfter is the time after which all connections that are left are ended, busy or not. If
	// it is 0, busy connections are never cut. A connection that hasn't had its turn by then is
	// ended without OnDrain, so choose more than Duration.
	ForceAfter time.Duration
}

// Drain ends all connections, the most idle first. That includes those that are tracked
// meanwhile, so stop accepting connections first. The operation finishes when no connection is
// live.
//
// When a connection has its turn, OnDrain is called ([Hooks]), even if the connection is busy. It
// is ended Drain.CloseDelay later, with [ReasonDrain]. If it's busy then, it is ended when it
// falls idle. A connection is busy
//
//   - in a phase whose policy says so (Policy.NoInterrupt);
//   - while its owner does not wait for input (see [Conn.AwaitRead]), so in many servers
//     while a request is served;
//   - while output waits to be sent, or what was written is still being sent to a slow peer (Linux, TCP);
//   - if it has input that is not read yet;
//   - while OnDrain or OnTimeout is running.
//
// Drain fails with [ErrClosed] if the tracker is closed, and with [ErrDraining] if another Drain
// has not finished. It also fails if a value in d is invalid; the error names it. It may be
// called from any goroutine, callbacks included.
func (t *Tracker) Drain(d Drain) (*Operation, error) {
	t.mustBeMade()
	if err := d.validate("Drain"); err != nil {
		return nil, err
	}
	p := d.plan()
	p.reason, p.lasts = ReasonDrain, true
	return t.operate(p)
}

// plan returns the plan of an operation with the pace of d.
func (d *Drain) plan() plan {
	return plan{pace: turns.Pace{Rate: d.Rate, Left: d.Duration}, grace: d.CloseDelay, stop: d.ForceAfter, most: math.MaxInt}
}

// validate returns an error if a value in d is invalid. what is the type that d is, or is
// a part of.
func (d *Drain) validate(what string) error {
	switch {
	case math.IsNaN(d.Rate) || math.IsInf(d.Rate, 0) || d.Rate < 0:
		return fmt.Errorf("idle: %s.Rate is %v; it must be a number of connections per second, or 0 for none", what, d.Rate)
	case d.Rate > 0 && d.Duration > 0:
		return fmt.Errorf("idle: %s.Duration is %v and %s.Rate is %v; set only one of them", what, d.Duration, what, d.Rate)
	case 0 < d.ForceAfter && d.ForceAfter < d.Duration:
		return fmt.Errorf("idle: %s.ForceAfter is %v, shorter than the Duration of %v, so it would end connections before their turn; use at least the Duration, or 0", what, d.ForceAfter, d.Duration)
	case 0 < d.ForceAfter && d.ForceAfter < d.CloseDelay:
		return fmt.Errorf("idle: %s.ForceAfter is %v, shorter than the CloseDelay of %v, so none would have that; use at least the CloseDelay, or 0", what, d.ForceAfter, d.CloseDelay)
	}
	return cmp.Or(
		checkDuration(what+".Duration", d.Duration),
		checkDuration(what+".CloseDelay", d.CloseDelay),
		checkDuration(what+".ForceAfter", d.ForceAfter),
	)
}

// Shed says which connections [Tracker.Shed] ends, and how. A connection is chosen if it meets
// all conditions that are set. Without conditions, all are chosen. Those that have been idle
// longest are ended first.
type Shed struct {
	// Max is how many connections are ended at most. Fraction is the alternative: a share of the
	// chosen connections, between 0 and 1. If both are 0, all chosen connections are ended.
	Max      int
	Fraction float64

	Idle   time.Duration        // idle for at least this long, see [Conn.Idle]
	Age    time.Duration        // tracked for at least this long
	Phase  *Phase               // in this phase
	Filter func(owner any) bool // chosen by this function

	// Cause says why, in a word or two. TimeoutError.Cause contains it, and Stats.Causes counts
	// by it.
	Cause string

	// Duration, Rate, CloseDelay and ForceAfter are as for [Drain].
	Duration   time.Duration
	Rate       float64
	CloseDelay time.Duration
	ForceAfter time.Duration
}

// Shed ends the connections that s chooses, in the same way as [Tracker.Drain] ends all, with
// [ReasonShed]. It doesn't include connections that are tracked later. One whose OnTimeout is
// running has its turn when that has returned. Idle, Age and Phase are checked once more when a
// connection has its turn.
//
// Filter is called for every connection that meets the other conditions, in a pass of its shard,
// or on the connection's loop. Passes of several shards may call it at the same time. It must be
// quick, and must not block. A panic is logged and counted like that of a callback, and the
// connection isn't chosen. To end a single connection, call [Conn.End].
//
// Shed fails with [ErrClosed] if the tracker is closed. It also fails if a value in s is
// invalid, and the error names it.
func (t *Tracker) Shed(s Shed) (*Operation, error) {
	t.mustBeMade()
	d := Drain{s.Duration, s.Rate, s.CloseDelay, s.ForceAfter}
	if err := cmp.Or(d.validate("Shed"), s.validate(t)); err != nil {
		return nil, err
	}
	p := d.plan()
	p.reason, p.cause, p.share, p.picks = ReasonShed, s.Cause, s.Fraction, s.Filter
	if s.Max > 0 {
		p.most = s.Max
	}
	p.wants = func(c *Conn) bool { return s.wants(c, t.clock) }
	return t.operate(p)
}

// wants reports whether a connection meets the conditions that need no Filter.
func (s *Shed) wants(c *Conn, k *clock.Clock) bool {
	switch e, m := &c.entry, k.Moment(); {
	case s.Phase != nil && e.phase.Load().first != s.Phase.first:
		return false
	case s.Idle > 0 && m.Since(e.lastUse()) < s.Idle:
		return false
	case s.Age > 0 && m.Since(e.born.Load()) < s.Age:
		return false
	}
	return true
}

func (s *Shed) validate(t *Tracker) error {
	switch {
	case s.Max < 0:
		return fmt.Errorf("idle: Shed.Max is %d; it must not be negative", s.Max)
	case math.IsNaN(s.Fraction) || s.Fraction < 0 || s.Fraction > 1:
		return fmt.Errorf("idle: Shed.Fraction is %v; it must be 0 to 1", s.Fraction)
	case s.Max > 0 && s.Fraction > 0:
		return fmt.Errorf("idle: Shed.Max is %d and Shed.Fraction is %v; set only one of them", s.Max, s.Fraction)
	case s.Phase != nil && s.Phase.clock != t.clock:
		return errors.New("idle: Shed.Phase is of another tracker; call Shed on the one that made the phase")
	}
	return cmp.Or(checkDuration("Shed.Idle", s.Idle), checkDuration("Shed.Age", s.Age))
}
