package main

import (
	"fmt"
	"runtime"
	"time"

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

// The allowances: how much more than after the warm-up may be in use once all
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
const (
	moreGoroutines  = 16
	moreDescriptors = 4
	moreHeapMB      = 1
	moreHeapByConn  = 512.0 / (1 << 20) // MB
)

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

// settle measures until that is good, or for as long as it is given.
func settle(targets []*target, within time.Duration, good func(level) bool) level {
	for end := time.Now().Add(within); ; time.Sleep(100 * time.Millisecond) {
		if l := measure(targets); good(l) || time.Now().After(end) {
			return l
		}
	}
}

// A calmness is for how many measurements nothing has changed.
type calmness struct {
	same, goroutines int
	heapMB           float64
}

const (
	calmFor    = 15   // measurements for which it has to be so, ten a second
	calmHeapMB = 0.05 // less is no change of the heap
)

// reached reports whether it is calm. A heap that shrinks is a change: before
// the load, what would be freed anyway would hide a leak.
func (c *calmness) reached(l level) bool {
	if l.Goroutines != c.goroutines || l.Tracked != 0 || l.HeapMB < c.heapMB-calmHeapMB {
		*c = calmness{0, l.Goroutines, l.HeapMB}
	}
	c.same++
	return c.same >= calmFor
}

// leaks tells what is in use beyond the allowances, after so many connections
// have been served, conns at a time.
func leaks(before, after level, conns, served int) (all []string) {
	if d := after.Goroutines - before.Goroutines; d > moreGoroutines {
		all = append(all, fmt.Sprintf("%d goroutines more than after the warm-up; %d are allowed", d, moreGoroutines))
	}
	if d := after.Descriptors - before.Descriptors; d > moreDescriptors {
		all = append(all, fmt.Sprintf("%d descriptors more than after the warm-up; %d are allowed", d, moreDescriptors))
	}
	if d, allowed := after.HeapMB-before.HeapMB, heapAllowance(conns); d > allowed {
		all = append(all, fmt.Sprintf("%.1f MB of heap more than after the warm-up, %.0f bytes for each of %s connections served; %.1f MB are allowed",
			d, bytesEach(before, after, served), table.Group(served), allowed))
	}
	if after.Tracked != 0 {
		all = append(all, fmt.Sprintf("%d connections are tracked still", after.Tracked))
	}
	return all
}

func heapAllowance(conns int) float64 { return moreHeapMB + moreHeapByConn*float64(conns) }

// bytesEach is by how much the heap has grown for each connection served.
func bytesEach(before, after level, served int) float64 {
	return table.Round((after.HeapMB-before.HeapMB)*(1<<20)/float64(max(1, served)), 1)
}
