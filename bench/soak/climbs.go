package main

import (
	"fmt"
	"slices"

	"github.com/idlewheel/idlewheel/bench/internal/stats"
)

// The allowances for what is in use under the load: by how much it may rise in
// the second half of the soak. This is to find what a connection gathers for as
// long as it lives, which is gone when all are closed; the rest leaks finds.
//
// The load stays the same, but who is there changes, and so does the heap, by
// some MB: a slow reader's output is buffered. And pools fill up: those of
// net/http, fasthttp and gnet give a buffer that was large once to others, until
// all that is live has one. Whatever their pace, of all that they will ever hold
// they take at most 22 % in the part that is looked at, if the pace is in
// proportion to what is still missing; so 16 KB a client allow for pools of 75 KB
// a client. With 1200 clients that is 27 MB in all: a second half of five minutes
// finds 120 KB a second, one of an hour 10 KB, which is some 10 bytes for each
// exchange of those who live as long as the soak.
const (
	climbHeapMB     = 8
	climbHeapByConn = 16.0 / 1024 // MB
	climbByConn     = 0.25        // goroutines, descriptors and the like, beyond what may leak
	leastClimb      = 6           // windows: with fewer there is no trend
)

// climbs tells what rises with time under a load that stays the same.
func climbs(windows []window, conns int) (all []string) {
	if len(windows) < leastClimb {
		return nil
	}
	// From the end of the first half on, without the last one: clients may be
	// leaving as it is measured.
	half := windows[len(windows)/2-1 : len(windows)-1]
	n := float64(conns)
	for _, c := range []struct {
		what    string
		of      func(level) float64
		allowed float64
	}{
		{"goroutines", func(l level) float64 { return float64(l.Goroutines) }, moreGoroutines + climbByConn*n},
		{"descriptors", func(l level) float64 { return float64(l.Descriptors) }, moreDescriptors + climbByConn*n},
		{"MB of heap", func(l level) float64 { return l.HeapMB }, climbHeapMB + climbHeapByConn*n},
		{"tracked connections", func(l level) float64 { return float64(l.Tracked) }, moreDescriptors + climbByConn*n},
	} {
		if d := rise(half, c.of); d > c.allowed {
			all = append(all, fmt.Sprintf("%s rise by %.1f from %.0f s to %.0f s, though the load stays the same; %.1f are allowed",
				c.what, d, half[0].End, half[len(half)-1].End, c.allowed))
		}
	}
	return all
}

// rise returns by how much something rises from the first window to the last,
// going by the median of the slopes between any two (Theil and Sen): one window
// that is out of line, be it the last, does not matter.
func rise(windows []window, of func(level) float64) float64 {
	var slopes []float64
	for i, from := range windows {
		for _, to := range windows[i+1:] {
			slopes = append(slopes, (of(to.level)-of(from.level))/(to.End-from.End))
		}
	}
	slopes = slices.DeleteFunc(slopes, func(v float64) bool { return v != v }) // no time between, and no difference
	return stats.Median(slopes) * (windows[len(windows)-1].End - windows[0].End)
}
