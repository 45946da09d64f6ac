package idle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// SetPressure makes the limits of connections follow a [Pressure]. Those of open
// connections do, too, in the background: see [Tracker.Replace]. Any goroutine may call
// it, but Read may not.
//
// SetPressure replaces an earlier Pressure, and forgets its readings. Pressure{} ends the
// earlier one, and all policies are those at rest again. A call of the earlier Read may
// still be running.
//
// [Tracker.SetPolicy] and [Tracker.Replace] set the policy at rest, whatever the
// pressure is, and it is scaled from then on. Policy, of the tracker and of phases,
// returns the policy at rest.
//
// SetPressure reads once before it returns. It fails if that fails, if a field of p is
// invalid, if the tracker is closed ([ErrClosed]), and if a limit at full pressure is
// longer than at rest. Then nothing changes. Closing the tracker ends the Pressure.
func (t *Tracker) SetPressure(p Pressure) error {
	t.mustBeMade()
	if p.isZero() {
		return t.press(nil)
	}
	p, err := p.complete(t.opts.Tick)
	if err != nil {
		return err
	}
	n := &pressing{Pressure: p, full: map[*Phase]Policy{}, over: make(chan struct{})}
	for phase, full := range p.Phases {
		switch {
		case phase == nil:
			return errors.New("idle: Pressure.Phases has a nil phase; did Tracker.Phase return an error?")
		case phase.clock != t.clock:
			return fmt.Errorf("idle: Pressure.Phases has the phase %q of another tracker; set it on the one that made the phase", phase.policy.Name)
		}
		n.full[phase.first] = full
	}
	if p.Policy.setsLimit() {
		n.full[t.phase] = p.Policy
	}
	reading, err := t.read(n)
	if err != nil {
		return err
	}
	n.gauge.note(p.of(reading))
	return t.press(n)
}

// Pressure returns the pressure that the limits have followed last, from 0 to 1. It is
// 0 if there is none: see [Tracker.SetPressure].
func (t *Tracker) Pressure() float64 {
	t.mustBeMade()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pressing == nil {
		return 0
	}
	return t.pressing.gauge.shows
}

// press has n take the place of the present pressing. Either may be nil.
func (t *Tracker) press(n *pressing) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return ErrClosed
	}
	versions := map[*Phase]*Phase{}
	if n != nil {
		for phase, full := range n.full {
			rest := phase.Policy()
			if err := checkFull(&rest, &full); err != nil {
				return inPhase(rest.Name, err)
			}
			next, err := n.version(phase, rest)
			if err != nil {
				return err
			}
			versions[phase] = next
		}
	}
	if old := t.pressing; old != nil {
		close(old.over)
		for phase := range old.full {
			if versions[phase] == nil {
				versions[phase] = newPhase(t.clock, phase.Policy())
			}
		}
	}
	t.pressing = n
	for phase, next := range versions {
		t.renew(phase, next)
	}
	t.follow()
	if n != nil {
		t.calls.running.begin()
		go t.keepReading(n)
	}
	return nil
}

// keepReading is the goroutine of n.
func (t *Tracker) keepReading(n *pressing) {
	defer t.calls.running.end()
	ticker := time.NewTicker(n.Every)
	defer ticker.Stop()
	for {
		select {
		case <-t.stop:
			return
		case <-n.over:
			return
		case <-ticker.C:
		}
		if !t.uses(n) { // over may have been closed at the same time
			return
		}
		if reading, err := t.read(n); err != nil {
			t.missReading(n, err)
		} else {
			t.noteReading(n, reading)
		}
	}
}

// uses reports whether n has not been replaced, nor the tracker closed.
func (t *Tracker) uses(n *pressing) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pressing == n && !t.closed
}

// errPanicked is the error of a reading that has panicked, which is logged and counted
// elsewhere.
var errPanicked = errors.New("idle: Pressure.Read has panicked; see the log")

// read calls Read of n. It fails if Read does not return a number from 0 to 1.
func (t *Tracker) read(n *pressing) (reading float64, err error) {
	err = errPanicked
	t.calls.guard("Read", func() { reading, err = n.Read() })
	switch {
	case err == errPanicked:
		return 0, err
	case err != nil:
		return 0, fmt.Errorf("idle: Pressure.Read has failed: %w", err)
	case !(reading >= 0 && reading <= 1):
		return 0, fmt.Errorf("idle: Pressure.Read has returned %v; it must return a number from 0 to 1", reading)
	}
	return reading, nil
}

// noteReading has the limits follow a reading of n.
func (t *Tracker) noteReading(n *pressing, reading float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pressing != n || t.closed {
		return
	}
	n.blind = false
	if !n.gauge.note(n.of(reading)) {
		return
	}
	for phase := range n.full {
		if next, err := n.version(phase, phase.Policy()); err == nil { // as at the beginning
			t.renew(phase, next)
		}
	}
	t.follow()
}

// missReading notes that a reading of n has failed. It logs the first one of several in
// a row.
func (t *Tracker) missReading(n *pressing, failed error) {
	t.mu.Lock()
	isFirst, stays := !n.blind, n.gauge.shows
	n.blind = true
	if failed != errPanicked {
		t.past.Misread++
	}
	t.mu.Unlock()
	if isFirst && failed != errPanicked {
		t.opts.Logger.LogAttrs(context.Background(), slog.LevelError, "idle: the pressure cannot be read, and stays as it is",
			slog.Float64("pressure", stays), slog.Any("error", failed))
	}
}
