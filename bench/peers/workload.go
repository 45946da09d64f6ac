package main

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/bench/peers/contender"
)

// A workload is something that all contenders are put through.
type workload struct {
	name      string
	conns     int
	measures  []measure
	stretches bool // its figures are of each connection, so fewer of them may be compared
	run       func(t turn) (outcome, error)
}

// A measure is a figure that a workload yields: a row of the result.
type measure struct{ name, title, unit string }

// A turn is one run of a workload with a contender, in a process of its own.
type turn struct {
	kind  contender.Kind
	conns int
	scale scale
}

// An outcome is what came of a turn.
type outcome struct {
	Values  map[string]float64 `json:"values"`  // by measure
	Missing string             `json:"missing"` // why a measure has no value
	Early   int                `json:"early"`
	Lost    int                `json:"lost"`
	Note    string             `json:"note"`
}

// newOutcome returns an outcome with one value.
func newOutcome(measure string, value float64) outcome {
	return outcome{Values: map[string]float64{measure: value}}
}

// A scale is how large the workloads are.
type scale struct {
	Sizes []int // random resets among so many
	Crowd int   // going stale, silent, in memory, live while garbage is collected
	Busy  int   // live while others are armed and cancelled

	Measure time.Duration // how long resets are timed
	GCs     int

	Spread      time.Duration // over which the crowd is last active
	SpreadStale time.Duration // the timeout then; longer, so that it does not overlap
	OnceStale   time.Duration // the timeout of those last active at once
	Patience    time.Duration // with what does not expire
	Settle      time.Duration // until a silent process is as silent as it gets
	Silence     time.Duration
	Limit       time.Duration // of a turn
}

func fullScale() scale {
	return scale{
		Sizes: []int{1_000, 10_000, 100_000, 1_000_000, 10_000_000},
		Crowd: 1_000_000, Busy: 100_000,
		Measure: 200 * time.Millisecond, GCs: 3,
		Spread: 5 * time.Second, SpreadStale: 6 * time.Second, OnceStale: 5 * time.Second,
		Patience: 5 * time.Second,
		Settle:   2 * time.Second, Silence: 5 * time.Second,
		Limit: 2 * time.Minute,
	}
}

func quickScale() scale {
	return scale{
		Sizes: []int{1_000, 10_000, 100_000},
		Crowd: 20_000, Busy: 10_000,
		Measure: 10 * time.Millisecond, GCs: 2,
		Spread: 200 * time.Millisecond, SpreadStale: 300 * time.Millisecond, OnceStale: 200 * time.Millisecond,
		Patience: 1500 * time.Millisecond,
		Settle:   700 * time.Millisecond, Silence: 300 * time.Millisecond,
		Limit: 10 * time.Second,
	}
}

// workloads returns all there are, in the order of presentation.
func workloads(s scale) []workload {
	all := []workload{resetHot()}
	for _, n := range s.Sizes {
		all = append(all, resetRandom(n))
	}
	return append(all, armCancel(s.Busy), memory(s.Crowd), collect(s.Crowd), staleSpread(s), staleAtOnce(s), silent(s))
}

// short writes a number of connections as people say it.
func short(n int) string {
	switch {
	case n >= 1_000_000 && n%1_000_000 == 0:
		return fmt.Sprintf("%dM", n/1_000_000)
	case n >= 1_000 && n%1_000 == 0:
		return fmt.Sprintf("%dk", n/1_000)
	}
	return fmt.Sprint(n)
}

// resetTimeout is the timeout of connections that are not to go stale.
const resetTimeout = time.Minute

// steady measures something of armed connections that are not to go stale, and
// counts those that expire all the same.
func (t turn) steady(measure func(c contender.Contender) (outcome, error)) (outcome, error) {
	var early atomic.Int64
	start := time.Now()
	c, err := t.kind.New(t.conns, resetTimeout, func(int) {
		if time.Since(start) < resetTimeout {
			early.Add(1)
		}
	})
	if err != nil {
		return outcome{}, err
	}
	defer c.Close()
	for i := range t.conns {
		c.Arm(i)
	}
	o, err := measure(c)
	o.Early = int(early.Load())
	return o, err
}
