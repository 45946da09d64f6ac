package main

import (
	"math/rand/v2"
	"time"

	"github.com/idlewheel/idlewheel/bench/peers/contender"
)

// Resets are what a server does with every read: most of all, by far.

const (
	chunk    = 1 << 12 // resets between two looks at the clock
	longList = 1 << 20 // random connections; more, and drawing them would be what is measured
)

func resetHot() workload {
	return reset("reset-hot", "reset of one hot connection", 1, chunk)
}

func resetRandom(n int) workload {
	return reset("reset-random-"+short(n), "reset of a random connection among "+short(n), n, longList)
}

// reset has a list of random connections reset again and again, and measures the
// time that a reset takes.
func reset(name, title string, n, length int) workload {
	return workload{
		name: name, conns: n,
		measures: []measure{{name, title, "ns"}},
		run: func(t turn) (outcome, error) {
			list := make([]uint32, length)
			for i := range list {
				list[i] = uint32(rand.IntN(t.conns))
			}
			return t.steady(func(c contender.Contender) (outcome, error) {
				resetFor(c, list, t.scale.Measure/4) // warms up
				begun := time.Now()
				done := resetFor(c, list, t.scale.Measure)
				return newOutcome(name, float64(time.Since(begun))/float64(done)), nil
			})
		},
	}
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
						c.Arm(i)
						c.Cancel(i)
					}
					done += coming
				}
				return newOutcome("arm-cancel", float64(time.Since(begun))/float64(done)), nil
			})
		},
	}
}
