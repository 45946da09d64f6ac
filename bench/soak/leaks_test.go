package main

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// madeWindows are the windows of a soak of 1200 clients as it was seen on two cores,
// of which the heap is more than usual by what grown says for a time.
func madeWindows(seconds float64, grown func(seconds float64) float64, seed uint64) (all []window) {
	rng := rand.New(rand.NewPCG(seed, 0))
	for i := range numWindows {
		end := seconds * (float64(i) + 0.9) / numWindows
		heap := 55 + 10*rng.Float64() + grown(end)
		all = append(all, window{End: end, level: level{Goroutines: 2690 + rng.IntN(60), HeapMB: heap, Tracked: 1200 - uint64(rng.IntN(30))}})
	}
	all[numWindows-1].level = level{Goroutines: 500, HeapMB: 30} // measured late, when many had left
	return all
}

// TestClimbs has pools of 60 MB fill up, at any pace, which is no climb, and what
// lives as long as the soak gather 120 KB a second, which is one after ten minutes.
func TestClimbs(t *testing.T) {
	for _, seconds := range []float64{30, 600, 360000} {
		for share := 0.01; share < 100; share *= 1.5 {
			pools := func(at float64) float64 { return 60 * (1 - math.Exp(-at/(share*seconds))) }
			if got := climbs(madeWindows(seconds, pools, 1), 1200); got != nil {
				t.Errorf("%v s, filled in %.0f s: %q", seconds, share*seconds, got)
			}
		}
		got := climbs(madeWindows(seconds, func(at float64) float64 { return 0.12 * at }, 1), 1200)
		if long := seconds > 700; long && (len(got) != 1 || !strings.Contains(got[0], "MB of heap")) || seconds < 60 && got != nil {
			t.Errorf("%v s: %q", seconds, got)
		}
	}
}

func TestLeaks(t *testing.T) {
	before := level{Goroutines: 10, Descriptors: 10, HeapMB: 10}
	most := allowance(1200)
	after := level{before.Goroutines + most.Goroutines, before.Descriptors + most.Descriptors, before.HeapMB + most.HeapMB, 0}
	if got := leaks(before, after, 1200, 0); got != nil {
		t.Errorf("what is allowed is a leak: %q", got)
	}
	if got := leaks(before, level{after.Goroutines + 1, after.Descriptors + 1, after.HeapMB + 1, 1}, 1200, 0); len(got) != 4 {
		t.Errorf("got %q, want four leaks", got)
	}
	const served = 20 * 370 // in 20 s
	if got := leaks(before, level{HeapMB: 10.2 + 200.0*served/(1<<20)}, 1200, served); len(got) != 1 {
		t.Errorf("of 200 bytes a connection, %q", got)
	}
}
