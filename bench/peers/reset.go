package main

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/bench/peers/contender"
)

// Resets are what a server does with every read: most of all, by far.

const (
	chunk    = 1 << 12 // resets between two looks at the clock
	longList = 1 << 20 // random connections; more, and drawing them would be what is measured
)

func resetHot() workload {
	return workload{
		name: "reset-hot", conns: 1,
		measures: []measure{{"reset-hot", "reset of one hot connection", "ns"}},
		run: func(t turn) (outcome, error) {
			return timeResets(t, "reset-hot", [][]uint32{make([]uint32, chunk)})
		},
	}
}

func resetRandom(n int) workload {
	name := "reset-random-" + short(n)
	return workload{
		name: name, conns: n, slow: n > 1_000_000,
		measures: []measure{{name, "reset of a random connection among " + short(n), "ns"}},
		run: func(t turn) (outcome, error) {
			return timeResets(t, name, [][]uint32{randomList(0, t.conns)})
		},
	}
}

// resetParallel has two goroutines reset connections of their own, as two
// loops of a server do.
func resetParallel(n int) workload {
	return workload{
		name: "reset-parallel", conns: n,
		measures: []measure{{"reset-parallel", "resets from 2 goroutines at once, each random among its half of " + short(n) + "; time for one", "ns"}},
		run: func(t turn) (outcome, error) {
			half := t.conns / 2
			o, err := timeResets(t, "reset-parallel", [][]uint32{randomList(0, half), randomList(half, 2*half)})
			if runtime.GOMAXPROCS(0) < 2 {
				o.Note = "on one core, so not really at once"
			}
			return o, err
		},
	}
}

// timeResets measures the time that a reset takes when each list is gone
// through again and again by a goroutine.
func timeResets(t turn, name string, lists [][]uint32) (outcome, error) {
	return t.steady(func(c contender.Contender) (outcome, error) {
		for _, list := range lists {
			resetFor(c, list, t.scale.Measure/4) // warms up
		}
		begun := time.Now()
		counts := make([]int, len(lists))
		var wg sync.WaitGroup
		for g, list := range lists {
			wg.Go(func() { counts[g] = resetFor(c, list, t.scale.Measure) })
		}
		wg.Wait()
		took, done := time.Since(begun), 0
		for _, n := range counts {
			done += n
		}
		return newOutcome(name, float64(took)/float64(done)), nil
	})
}

// resetFor resets the connections of a list, over and over, for a while, and
// returns how many resets that were.
func resetFor(c contender.Contender, list []uint32, while time.Duration) (done int) {
	begun := time.Now()
	for time.Since(begun) < while {
		at := done % len(list)
		part := list[at:min(at+chunk, len(list))]
		c.Touch(part)
		done += len(part)
	}
	return done
}

// randomList returns numbers of connections from lo up to hi.
func randomList(lo, hi int) []uint32 {
	list := make([]uint32, longList)
	for i := range list {
		list[i] = uint32(lo + rand.IntN(hi-lo))
	}
	return list
}

// armCancel is what connections cost that come and go, while others stay.
func armCancel(others int) workload {
	const coming = 1 << 10
	return workload{
		name: "arm-cancel", conns: others + coming,
		measures: []measure{{"arm-cancel", "arm and cancel, with " + short(others) + " others live", "ns"}},
		run: func(t turn) (outcome, error) {
			return t.steady(func(c contender.Contender) (outcome, error) {
				others := t.conns - coming
				for i := others; i < t.conns; i++ {
					c.Cancel(i)
				}
				begun, done := time.Now(), 0
				for time.Since(begun) < t.scale.Measure {
					for i := others; i < t.conns; i++ {
						if err := c.Arm(i); err != nil {
							return outcome{}, err
						}
						c.Cancel(i)
					}
					done += coming
				}
				return newOutcome("arm-cancel", float64(time.Since(begun))/float64(done)), nil
			})
		},
	}
}
