package pressure

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// Config says what [Follow] follows, and how far.
type Config struct {
	// Read returns how much of the resource is in use, from 0 to 1. It is called on a goroutine
	// of its own, and may block. [Heap] and others of this package are such functions, and
	// [Highest] combines several. If Read fails, panics, or returns any other number or NaN, the
	// pressure stays as it is. The first failure in a row is logged, and all are counted: see
	// [Follower.Failures].
	Read func() (float64, error)

	// From is the reading at which the pressure begins to rise from 0, and Full the one at which
	// it is 1. A Full of 0 means 1.
	From, Full float64

	// Policy is the policy of the tracker's initial phase at full pressure, and Phases has the
	// policies of other phases at full pressure. [Scale] says what the limits are in between. A
	// limit that isn't set here stays as it is at rest. None may be longer than at rest.
	Policy idle.Policy
	Phases map[*idle.Phase]idle.Policy

	// Every is how often Read is called. The default is 1 s.
	Every time.Duration

	// Logger logs failures. The default is slog.Default().
	Logger *slog.Logger
}

// complete returns c with defaults filled in, or an error that names an invalid field.
func (c Config) complete() (Config, error) {
	if c.Full == 0 {
		c.Full = 1
	}
	if c.Every == 0 {
		c.Every = time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	switch {
	case c.Read == nil:
		return c, errors.New("pressure: Config.Read is nil; set it to a function that returns a number from 0 to 1, such as pressure.Heap")
	case !(c.From >= 0 && c.From < c.Full && c.Full <= 1):
		return c, fmt.Errorf("pressure: Config.From is %v and Full is %v; they must be from 0 to 1, and From less than Full", c.From, c.Full)
	case c.Every < time.Millisecond:
		return c, fmt.Errorf("pressure: Config.Every is %v; it must be at least 1ms, or 0 for 1s", c.Every)
	case !c.Policy.SetsLimit() && len(c.Phases) == 0:
		return c, errors.New("pressure: Config.Policy and Phases set no limit; set those that are to be tighter at full pressure")
	}
	return c, nil
}

// Between returns a function for [Config].Read: 0 while read returns from or less, 1 from
// full on, and in proportion in between.
//
// Between panics unless 0 <= from < full <= 1.
func Between(from, full float64, read func() (float64, error)) func() (float64, error) {
	if !(from >= 0 && from < full && full <= 1) {
		panic(fmt.Sprintf("pressure: Between(%v, %v); use numbers from 0 to 1, the lower one first", from, full))
	}
	if read == nil {
		panic("pressure: Between: read is nil; pass a function such as Heap")
	}
	return func() (float64, error) {
		reading, err := read()
		if err == nil {
			err = check(reading)
		}
		return between(from, full, reading), err
	}
}

func between(from, full, reading float64) float64 {
	return min(max((reading-from)/(full-from), 0), 1)
}

// Highest returns a function for [Config].Read that returns the highest of several
// readings. Give each its own range with [Between]:
//
//	Read: pressure.Highest(
//		pressure.Between(0.85, 0.95, pressure.Heap),
//		pressure.Between(0.7, 0.9, pressure.Descriptors)),
//
// It fails if one of them does. Highest panics if there is none.
func Highest(readings ...func() (float64, error)) func() (float64, error) {
	if len(readings) == 0 {
		panic("pressure: Highest of no readings; pass at least one, such as Heap")
	}
	return func() (highest float64, err error) {
		for _, read := range readings {
			reading, err := read()
			if err == nil {
				err = check(reading)
			}
			if err != nil {
				return 0, err
			}
			highest = max(highest, reading)
		}
		return highest, nil
	}
}

// check returns an error if a reading is no number from 0 to 1.
func check(reading float64) error {
	if !(reading >= 0 && reading <= 1) {
		return fmt.Errorf("pressure: Read has returned %v; it must return a number from 0 to 1", reading)
	}
	return nil
}

// A Follower makes policies follow a pressure. [Follow] makes one. Its methods may be called from
// any goroutine. A nil Follower behaves like one that has stopped: its pressure is 0, and Stop
// and Add have no effect.
type Follower struct {
	config  Config
	tracker *idle.Tracker
	done    chan struct{} // closed when it has stopped

	mu       sync.Mutex
	stopped  bool
	phases   []*followed
	gauge    gauge
	failing  bool // the last reading failed
	failures uint64
}

// followed is a phase that follows.
type followed struct {
	tracker *idle.Tracker
	phase   *idle.Phase
	full    idle.Policy
	rest    idle.Policy
	version uint64 // that was set last
}

// Follow makes limits of t's connections tighter while a resource runs out, also for those
// that are open. The pressure is a number from 0, at rest, to 1:
//
//	f, err := pressure.Follow(tracker, pressure.Config{
//		Read: pressure.Heap, From: 0.85, Full: 0.95,
//		Policy: idle.Policy{IdleTimeout: 2 * time.Second},
//	})
//
// While less than 85 % of the memory is in use, this changes nothing. From 95 % on, IdleTimeout
// is 2 s. With an IdleTimeout of 10 minutes at rest it is 181.4 s at 92 %.
//
// The pressure is the highest of the last ten readings, so it rises at once, and falls when ten
// readings in a row were lower. Changes by less than 0.05 are ignored unless the pressure becomes
// 0 or 1.
//
// Follow reads once before it returns. It fails if that fails, if a field of c is invalid,
// if a limit at full pressure is longer than at rest, and if the tracker is closed
// ([idle.ErrClosed]). Then nothing changes. It panics if t is nil.
//
// Policies are set with [idle.Tracker.CompareAndReplace], and the Policy of a phase is the one in force. If
// the program replaces the policy of a phase, the new one becomes its policy at rest, and the
// next reading scales it. At most one Follower may change a phase.
//
// The Follower has a goroutine, which ends with [Follower.Stop] or with the tracker. Closing the
// tracker does what Stop does, so phases of other trackers get their policies at rest.
func Follow(t *idle.Tracker, c Config) (*Follower, error) {
	c, err := c.complete()
	if err != nil {
		return nil, err
	}
	f := &Follower{config: c, tracker: t, done: make(chan struct{})}
	initial := t.Initial()
	if c.Policy.SetsLimit() {
		if err := f.add(t, initial, c.Policy); err != nil {
			return nil, err
		}
	}
	// The initial phase comes first: if its new policy doesn't suit the capacity, no other policy
	// has changed yet.
	if full, ok := c.Phases[initial]; ok {
		if err := f.add(t, initial, full); err != nil {
			return nil, err
		}
	}
	for phase, full := range c.Phases {
		if phase == initial {
			continue
		}
		if err := f.add(t, phase, full); err != nil {
			return nil, err
		}
	}
	reading, err := f.read()
	if err != nil {
		return nil, err
	}
	f.gauge.note(between(c.From, c.Full, reading))
	for _, p := range f.phases {
		if err := p.adjust(f.gauge.shows); err != nil {
			f.gauge = gauge{}
			f.adjust() // back to what they were
			return nil, err
		}
	}
	go f.run()
	go f.stopWith(t)
	return f, nil
}

// Add makes another phase, of any tracker, follow the pressure too. It fails for the same reasons
// as [Follow]. It has no effect if f has stopped.
func (f *Follower) Add(t *idle.Tracker, phase *idle.Phase, full idle.Policy) error {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped {
		return nil
	}
	if err := f.add(t, phase, full); err != nil {
		return err
	}
	last := len(f.phases) - 1
	if err := f.phases[last].adjust(f.gauge.shows); err != nil {
		f.phases = f.phases[:last]
		return err
	}
	return nil
}

// add adds a phase, which stays as it is until adjust.
func (f *Follower) add(t *idle.Tracker, phase *idle.Phase, full idle.Policy) error {
	if phase == nil {
		return errors.New("pressure: a phase is nil; did Tracker.Phase return an error?")
	}
	rest, version := phase.Version()
	if _, err := t.CompareAndReplace(phase, version, rest); err != nil { // which changes nothing
		return err
	}
	for _, p := range f.phases {
		if p.phase == phase {
			return inPhase(rest.Name, errors.New("it is followed already; give each phase one policy at full pressure"))
		}
	}
	if err := checkFull(&rest, &full); err != nil {
		return inPhase(rest.Name, err)
	}
	if _, err := t.Phase(Scale(rest, full, 1)); err != nil {
		return inPhase(rest.Name, fmt.Errorf("at full pressure, %w", err))
	}
	f.phases = append(f.phases, &followed{t, phase, full, rest, version})
	return nil
}

// inPhase returns err with the name of a phase.
func inPhase(name string, err error) error {
	if name == "" {
		return fmt.Errorf("pressure: %w", err)
	}
	return fmt.Errorf("pressure: phase %q: %w", name, err)
}

// Stop stops f. When it has returned, the policies are those at rest again. A call of Read may
// still be running.
func (f *Follower) Stop() {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped {
		return
	}
	f.stopped = true
	f.gauge = gauge{}
	if err := f.adjust(); err != nil {
		f.log(err)
	}
	close(f.done)
}

func (f *Follower) hasStopped() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stopped
}

// Done returns a channel that is closed when f has stopped: after Stop, or with its tracker.
func (f *Follower) Done() <-chan struct{} {
	if f == nil {
		done := make(chan struct{})
		close(done)
		return done
	}
	return f.done
}

// Pressure returns the pressure that the limits follow, from 0 to 1.
func (f *Follower) Pressure() float64 {
	if f == nil {
		return 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.gauge.shows
}

// Failures returns how many readings have failed, or led to an invalid policy.
func (f *Follower) Failures() uint64 {
	if f == nil {
		return 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failures
}

// Rest returns the policy at rest of a phase, whether f follows it or not.
func (f *Follower) Rest(phase *idle.Phase) idle.Policy {
	if f == nil {
		return phase.Policy()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.phases {
		if p.phase == phase {
			return p.restAt(phase.Version())
		}
	}
	return phase.Policy()
}

// restAt returns the policy at rest, if now is the one in force, of the given version.
func (p *followed) restAt(now idle.Policy, version uint64) idle.Policy {
	if version != p.version { // it was replaced
		return now
	}
	return p.rest
}

// adjust sets all policies to what they are at the present pressure. f.mu must be held.
func (f *Follower) adjust() (failed error) {
	f.phases = slices.DeleteFunc(f.phases, func(p *followed) bool {
		err := p.adjust(f.gauge.shows)
		if err != nil && !errors.Is(err, idle.ErrClosed) {
			failed = err
		}
		return errors.Is(err, idle.ErrClosed)
	})
	return failed
}

// adjust sets the policy to what it is at a pressure.
func (p *followed) adjust(pressure float64) error {
	for {
		now, version := p.phase.Version()
		rest := p.restAt(now, version)
		next := Scale(rest, p.full, pressure)
		replaced, err := p.tracker.CompareAndReplace(p.phase, version, next)
		if err != nil {
			return inPhase(rest.Name, err)
		}
		if replaced {
			p.rest, p.version = rest, version
			if next != now {
				p.version++
			}
			return nil
		}
	}
}

// run is the goroutine of f.
func (f *Follower) run() {
	ticker := time.NewTicker(f.config.Every)
	defer ticker.Stop()
	for {
		select {
		case <-f.done:
			return
		case <-ticker.C:
		}
		if f.hasStopped() { // done may have been closed at the same time
			return
		}
		f.note(f.read())
	}
}

// stopWith stops f when t is closed, so that phases of other trackers are at rest again. It has a
// goroutine of its own, because Read may be running, and block.
func (f *Follower) stopWith(t *idle.Tracker) {
	select {
	case <-f.done:
	case <-t.Done():
		f.Stop()
	}
}

// read calls Read. It fails if that does not return a number from 0 to 1.
func (f *Follower) read() (reading float64, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("pressure: Read has panicked: %v", p)
		}
	}()
	if reading, err = f.config.Read(); err != nil {
		return 0, fmt.Errorf("pressure: Read has failed: %w", err)
	}
	return reading, check(reading)
}

// note adapts the limits to a reading.
func (f *Follower) note(reading float64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped {
		return
	}
	if err == nil {
		f.gauge.note(between(f.config.From, f.config.Full, reading))
		err = f.adjust()
	}
	if err != nil {
		f.failures++
		if !f.failing {
			f.log(err)
		}
	}
	f.failing = err != nil
}

// log logs that something has failed. f.mu must be held.
func (f *Follower) log(err error) {
	f.config.Logger.LogAttrs(context.Background(), slog.LevelError, "pressure: the limits do not follow",
		slog.Float64("pressure", f.gauge.shows), slog.String("error", strings.TrimPrefix(err.Error(), "pressure: ")))
}
