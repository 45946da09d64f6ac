package idle

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"
)

// Drain says how [Tracker.Drain] ends all connections.
type Drain struct {
	// Over is the time over which connections are ended, at an even rate. If many leave by
	// themselves, it ends sooner. Rate is another way to say it: so many connections a
	// second. If both are 0, all have their turn at once.
	Duration time.Duration
	Rate     float64

	// Grace is the time that a connection has to finish after OnDrain was called. If
	// it is 0, the connection is ended when OnDrain has returned.
	CloseDelay time.Duration

	// Stop is the time after which all connections that are left are ended, whether
	// they are busy or not. If it is 0, busy connections are never cut. One that has
	// not had its turn by then is ended without OnDrain, so choose more than Over.
	ForceAfter time.Duration
}

// Drain ends all connections, the most idle first. Those that are tracked meanwhile are
// included, so stop accepting connections before, unless the listener hands out
// connections only to tell them. The operation finishes when no connection is live.
//
// When a connection has its turn, OnDrain is called ([Hooks]), even if the connection is
// busy. It is ended Drain.CloseDelay later, with [ReasonDrain]. One that is busy by then is
// ended when it falls idle. A connection is busy
//
//   - in a phase whose policy says so (Policy.NoInterrupt);
//   - while its owner does not wait for input (see [Conn.AwaitRead]), so in many servers
//     while a request is served;
//   - while output waits to be sent;
//   - if it has input that is not read yet;
//   - while OnDrain or OnTimeout is running.
//
// Drain fails with [ErrClosed] if the tracker is closed, and if another Drain has not
// finished. It also fails if a value in d is invalid; the error names it. It may be
// called from any goroutine, callbacks included.
func (t *Tracker) Drain(d Drain) (*Operation, error) {
	t.mustBeMade()
	if err := d.validate("Drain"); err != nil {
		return nil, err
	}
	if t.isClosed() {
		return nil, ErrClosed
	}
	if !t.draining.CompareAndSwap(false, true) {
		return nil, errors.New("idle: Drain while another one is under way; Cancel that first, or wait until it is Done")
	}
	p := d.plan()
	p.reason, p.lasts = ReasonDrain, true
	p.after = func() { t.draining.Store(false) }
	return t.operate(p), nil
}

// plan returns the plan of an operation at the pace of d.
func (d *Drain) plan() plan {
	return plan{pace: pace{rate: d.Rate, left: d.Duration}, grace: d.CloseDelay, stop: d.ForceAfter, most: math.MaxInt}
}

// validate returns an error if a value in d is invalid. what is the type that d is, or is
// a part of.
func (d *Drain) validate(what string) error {
	switch {
	case math.IsNaN(d.Rate) || math.IsInf(d.Rate, 0) || d.Rate < 0:
		return fmt.Errorf("idle: %s.Rate is %v; it must be a number of connections a second, or 0 for none", what, d.Rate)
	case d.Rate > 0 && d.Duration > 0:
		return fmt.Errorf("idle: %s.Over is %v and %s.Rate is %v; set only one of them", what, d.Duration, what, d.Rate)
	}
	return cmp.Or(
		notNegative(what+".Duration", d.Duration),
		notNegative(what+".CloseDelay", d.CloseDelay),
		notNegative(what+".ForceAfter", d.ForceAfter),
	)
}
