package main

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/stats"
	"github.com/idlewheel/idlewheel/bench/internal/table"
	"github.com/idlewheel/idlewheel/bench/internal/usage"
)

// A level is how much of everything is in use.
type level struct {
	Goroutines  int     `json:"goroutines"`
	Descriptors int     `json:"descriptors"` // -1: not known on this system
	HeapMB      float64 `json:"heap_mb"`     // after a collection
	Tracked     uint64  `json:"tracked"`     // connections that are live to the trackers
}

// allowance is how much more than after the warm-up may be in use once all
// connections are closed. The warm-up has as many clients at a time as the soak,
// so what is kept for the next one is there before it, and what sync.Pools hold
// the collections take away. What remains depends on how many clients there were
// at a time, which varies a little, and not on how many there were in all: maps
// that have grown, and 450 bytes for each goroutine of the busiest moment, which
// the runtime keeps for good. So none of this grows with the time, and the
// longer the soak, the smaller the leak that it finds. With 1200 clients, of
// which there are some 370 new ones a second, 1.6 MB are allowed, and 0.2 MB are
// seen; so a leak of 200 bytes a connection is found after 20 s, one of 10 bytes
// after 7 minutes, and one that only one of the six servers has after six times
// as long (-servers runs it alone).
func allowance(conns int) level {
	const heapByConn = 512.0 / (1 << 20) // MB
	return level{Goroutines: 16, Descriptors: 4, HeapMB: 1 + heapByConn*float64(conns)}
}

// climb is by how much what is in use under the load may rise in the second half
// of the soak. This is to find what a connection gathers for as long as it lives,
// which is gone when all are closed; the rest leaks finds.
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
func climb(conns int) level {
	const heapByConn = 16.0 / 1024 // MB
	return level{Goroutines: 16 + conns/4, Descriptors: 4 + conns/4, HeapMB: 8 + heapByConn*float64(conns), Tracked: uint64(4 + conns/4)}
}

// A quantity is one of those of a level.
type quantity struct {
	name string
	of   func(level) float64
}

func quantities() []quantity {
	return []quantity{
		{"goroutines", func(l level) float64 { return float64(l.Goroutines) }},
		{"descriptors", func(l level) float64 { return float64(l.Descriptors) }},
		{"MB of heap", func(l level) float64 { return l.HeapMB }},
		{"tracked connections", func(l level) float64 { return float64(l.Tracked) }},
	}
}

// leaks tells what is in use beyond the allowance, after so many connections
// have been served, conns at a time.
func leaks(before, after level, conns, served int) (all []string) {
	for _, q := range quantities() {
		if more, allowed := q.of(after)-q.of(before), q.of(allowance(conns)); more > allowed {
			all = append(all, fmt.Sprintf("%.1f %s more than after the warm-up; %.1f are allowed; %s connections were served", more, q.name, allowed, table.Group(served)))
		}
	}
	return all
}

// climbs tells what rises with time under a load that stays the same.
func climbs(windows []window, conns int) (all []string) {
	const least = 6 // with fewer there is no trend
	if len(windows) < least {
		return nil
	}
	// From the end of the first half on, without the last one: clients may be
	// leaving as it is measured.
	half := windows[len(windows)/2-1 : len(windows)-1]
	for _, q := range quantities() {
		if d, allowed := rise(half, q.of), q.of(climb(conns)); d > allowed {
			all = append(all, fmt.Sprintf("%s rise by %.1f from %.0f s to %.0f s, though the load stays the same; %.1f are allowed",
				q.name, d, half[0].End, half[len(half)-1].End, allowed))
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

func measure(targets []*target) level {
	runtime.GC()
	runtime.GC() // what sync.Pools held is gone after the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	l := level{
		Goroutines: runtime.NumGoroutine(), Descriptors: usage.Open(),
		HeapMB: table.Round(float64(m.HeapAlloc)/(1<<20), 2),
	}
	for _, t := range targets {
		l.Tracked += t.Stats().Live
	}
	return l
}

// settle measures, ten times a second, until enough says so when nothing has changed
// for a while and no connection is left, or for as long as it is given. Servers keep
// some goroutines for the next connection. A heap that shrinks is a change: before
// the load, what would be freed anyway would hide a leak.
func settle(targets []*target, within time.Duration, enough func(l level, calm bool) bool) level {
	const calmFor, noChangeMB = 15, 0.05
	var last level
	same := 0
	for end := time.Now().Add(within); ; time.Sleep(100 * time.Millisecond) {
		l := measure(targets)
		if l.Goroutines != last.Goroutines || l.Tracked != 0 || l.HeapMB < last.HeapMB-noChangeMB {
			last, same = l, 0
		}
		same++
		if enough(l, same >= calmFor) || time.Now().After(end) {
			return l
		}
	}
}
