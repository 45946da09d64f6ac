package main

import (
	"math"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/table"
	"github.com/idlewheel/idlewheel/bench/internal/usage"
)

// The soak of the made-up series, as seen on 2 cores.
const (
	madeConns = 1200
	madeRate  = 370 // new connections a second
	madeHeap  = 60  // MB, under the load
	madeNoise = 5   // MB, to either side
	madeCalm  = 0.2 // MB that the heap has grown without a leak
)

// madeWindows are the windows of a soak of d, of which the heap is more than
// usual by what grown says for a time.
func madeWindows(d time.Duration, grown func(seconds float64) float64, seed uint64) (all []window) {
	rng := rand.New(rand.NewPCG(seed, 0))
	for i := range numWindows {
		end := d.Seconds() * (float64(i) + 0.9) / numWindows
		heap := madeHeap + madeNoise*(2*rng.Float64()-1) + grown(end)
		all = append(all, window{End: end, level: level{Goroutines: 2690 + rng.IntN(60), HeapMB: heap, Tracked: 1200 - uint64(rng.IntN(30))}})
	}
	all[numWindows-1].level = level{Goroutines: 500, HeapMB: 30} // measured late, when many had left
	return all
}

func durations() []time.Duration {
	return []time.Duration{30 * time.Second, 45 * time.Second, 10 * time.Minute, 5 * time.Hour, 100 * time.Hour}
}

// TestLeakOfEachConnection has 200 bytes left of each connection.
func TestLeakOfEachConnection(t *testing.T) {
	start := level{Goroutines: 23, Descriptors: 21, HeapMB: 7}
	for _, d := range durations() {
		served := int(d.Seconds() * madeRate)
		end := start
		end.HeapMB += madeCalm
		if got := leaks(start, end, madeConns, served); got != nil {
			t.Errorf("%v: without a leak, %q", d, got)
		}
		end.HeapMB += 200 * float64(served) / (1 << 20)
		if got := leaks(start, end, madeConns, served); len(got) != 1 || !strings.Contains(got[0], "bytes for each of "+table.Group(served)) {
			t.Errorf("%v: of a leak, %q", d, got)
		}
	}
}

// TestPoolsFillUp has pools of 60 MB fill up, at any pace.
func TestPoolsFillUp(t *testing.T) {
	for _, d := range durations() {
		for share := 0.01; share < 100; share *= 1.5 {
			pace := share * d.Seconds()
			pools := func(seconds float64) float64 { return 60 * (1 - math.Exp(-seconds/pace)) }
			for seed := range uint64(20) {
				if got := climbs(madeWindows(d, pools, seed), madeConns); got != nil {
					t.Errorf("%v, filled in %.0f s: %q", d, pace, got)
				}
			}
		}
	}
}

// TestClimb has what lives as long as the soak gather 120 KB a second, which is
// not to be seen in a short one.
func TestClimb(t *testing.T) {
	gather := func(seconds float64) float64 { return 0.12 * seconds }
	for _, d := range durations() {
		for seed := range uint64(20) {
			got := climbs(madeWindows(d, gather, seed), madeConns)
			if long := d > 11*time.Minute; long && (len(got) != 1 || !strings.Contains(got[0], "MB of heap")) || d < time.Minute && got != nil {
				t.Errorf("%v: %q", d, got)
			}
		}
	}
}

func TestClimbOfGoroutines(t *testing.T) {
	var flat, rising []window
	for i := range numWindows {
		w := window{End: float64(i + 1), level: level{Goroutines: 1000, HeapMB: 50}}
		flat = append(flat, w)
		w.Goroutines += 100 * i
		rising = append(rising, w)
	}
	if got := climbs(flat, 100); got != nil {
		t.Errorf("a flat line climbs: %q", got)
	}
	if got := climbs(rising, 100); len(got) != 1 || !strings.Contains(got[0], "goroutines rise by 400.0 from 5 s to 9 s") {
		t.Errorf("got %q, want goroutines", got)
	}
	if got := climbs(rising[:leastClimb-1], 100); got != nil {
		t.Errorf("of too few windows %q", got)
	}
}

func TestLeaks(t *testing.T) {
	before := level{Goroutines: 10, Descriptors: 10, HeapMB: 10}
	if got := leaks(before, level{Goroutines: 10 + moreGoroutines, Descriptors: 10 + moreDescriptors, HeapMB: 10 + heapAllowance(100)}, 100, 0); got != nil {
		t.Errorf("what is allowed is a leak: %q", got)
	}
	if got := leaks(before, level{Goroutines: 100, Descriptors: 100, HeapMB: 100, Tracked: 1}, 100, 1000); len(got) != 4 {
		t.Errorf("got %q, want four", got)
	}
}

// TestCalm: a heap that shrinks is not calm, one that quivers is.
func TestCalm(t *testing.T) {
	var c calmness
	heap := 20.0
	for range 100 {
		heap -= 2 * calmHeapMB
		if c.reached(level{Goroutines: 5, HeapMB: heap}) {
			t.Fatalf("calm at %.1f MB, on the way down", heap)
		}
	}
	for i := range calmFor {
		if got, want := c.reached(level{Goroutines: 5, HeapMB: heap + float64(i%2)*calmHeapMB/2}), i >= calmFor-2; got != want {
			t.Errorf("after %d measurements calm is %t", i+1, got)
		}
	}
}

func TestMeasureCountsDescriptors(t *testing.T) {
	before := usage.Open()
	if before < 0 {
		t.Skip("not known on this system")
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if now := usage.Open(); now <= before {
		t.Errorf("%d descriptors before a listener, %d with it", before, now)
	}
}
