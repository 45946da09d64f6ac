package hook_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"
	"weak"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/idlewheel/idlewheel/adapters/idleprom"
	"github.com/idlewheel/idlewheel/idle"
	"github.com/idlewheel/idlewheel/idle/pressure"
)

// control is what operators do to trackers, and what must change nothing for their clients.
// It goes on in the background while the tests run, one thing each turn.
var control struct {
	mu       sync.Mutex
	trackers []weak.Pointer[idle.Tracker]
	running  bool
	turns    int
}

// Turns are short, and collections rarer. A collection ends trackers that a test has dropped
// without closing them, before the suite looks for goroutines that are left.
const (
	turn          = 3 * time.Millisecond
	collectsEvery = 30 // turns
)

// steer has a tracker controlled until it is closed or dropped.
func steer(t *idle.Tracker) {
	if t == nil || time.Now().Year() < 2020 { // a bubble of synctest, which nobody outside may touch
		return
	}
	control.mu.Lock()
	defer control.mu.Unlock()
	control.trackers = append(control.trackers, weak.Make(t))
	if !control.running {
		control.running = true
		time.AfterFunc(turn, takeTurn)
	}
}

// takeTurn runs on a goroutine of its own each time, so that suites which look for goroutines
// find none between two turns.
func takeTurn() {
	control.mu.Lock()
	defer control.mu.Unlock()
	control.turns++
	if control.turns%collectsEvery == 0 {
		runtime.GC()
	}
	control.trackers = slices.DeleteFunc(control.trackers, func(w weak.Pointer[idle.Tracker]) bool {
		t := w.Value()
		if t == nil {
			return true
		}
		err := disturb(t, control.turns)
		if err != nil && !errors.Is(err, idle.ErrClosed) {
			panic(err)
		}
		return err != nil
	})
	if control.running = len(control.trackers) > 0; control.running {
		time.AfterFunc(turn, takeTurn)
	}
}

// disturb does one of several things to t.
func disturb(t *idle.Tracker, which int) error {
	census, err := t.Census(context.Background(), idle.Query{Sort: idle.MostIdle})
	if err != nil {
		return err
	}
	switch which % 5 {
	case 0:
		for _, phase := range replaceable(t, census) {
			if err := phase.SetPolicy(phase.Policy()); err != nil {
				return err
			}
		}
	case 1:
		many := idle.Quota{PerSecond: 1e9, Burst: 1e9}
		large := idle.Capacity{MaxConns: 1e9, PerKey: 1e9, Key: idle.ByAddress, New: many, NewPerKey: many}
		if t.Policy().Handshake {
			large.Handshakes = 1e9
		}
		return t.SetCapacity(large)
	case 2:
		for _, phase := range replaceable(t, census) {
			if err := follow(t, phase); err != nil {
				return err
			}
		}
	case 3:
		c, err := idleprom.New(map[string]*idle.Tracker{"suite": t}, nil)
		if err != nil {
			return err
		}
		metrics := make(chan prometheus.Metric)
		go func() { c.Collect(metrics); close(metrics) }()
		for range metrics {
		}
	case 4:
		_, err := census.Page(context.Background(), 0, 100)
		return err
	}
	return nil
}

// replaceable returns the phases of a census whose policy may be replaced. A connection of HTTP is in
// its initial phase between Track and Enter, where a census may find it, and that phase is fixed.
func replaceable(t *idle.Tracker, census *idle.Census) (phases []*idle.Phase) {
	for _, p := range census.Phases {
		if http := t.Policy().Handshake; !http || p.Phase != t.Initial() {
			phases = append(phases, p.Phase)
		}
	}
	return phases
}

// follow has a phase tightened to limits that are still generous, and relaxed again.
func follow(t *idle.Tracker, phase *idle.Phase) error {
	full := phase.Policy()
	for _, limit := range []*time.Duration{&full.IdleTimeout, &full.ReadTimeout, &full.ReadTotal, &full.WriteTimeout, &full.PhaseTimeout} {
		*limit /= 2
	}
	if !full.SetsLimit() {
		return nil
	}
	f, err := pressure.Follow(t, pressure.Config{
		Read:   func() (float64, error) { return 1, nil },
		Phases: map[*idle.Phase]idle.Policy{phase: full},
	})
	if err != nil {
		return err
	}
	f.Stop()
	return nil
}
