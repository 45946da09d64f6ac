package main

import (
	"fmt"
	"runtime"
	"time"
)

// A level is how much of everything is in use.
type level struct {
	Goroutines  int     `json:"goroutines"`
	Descriptors int     `json:"descriptors"` // -1: not known on this system
	HeapMB      float64 `json:"heap_mb"`     // after a collection
	Tracked     uint64  `json:"tracked"`     // connections that are live to the trackers
}

// The allowances: how much more than after the warm-up may be in use once all
// connections are closed. Pools keep some goroutines and much memory, the more
// the more connections there were at a time, but not the more the longer.
const (
	moreGoroutines  = 16
	moreDescriptors = 4
	moreHeapMB      = 8
	moreHeapByConn  = 16.0 / 1024 // MB: the buffers of net/http and fasthttp that pools keep
)

func measure(servers []*server) level {
	runtime.GC()
	runtime.GC() // what sync.Pools held is gone after the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	l := level{
		Goroutines: runtime.NumGoroutine(), Descriptors: openDescriptors(),
		HeapMB: round(float64(m.HeapAlloc)/(1<<20), 2),
	}
	for _, s := range servers {
		l.Tracked += s.stats().Live
	}
	return l
}

// settle measures until nothing is in use that was not at first, or for as long
// as it is given.
func settle(servers []*server, within time.Duration, good func(level) bool) level {
	for end := time.Now().Add(within); ; time.Sleep(100 * time.Millisecond) {
		if l := measure(servers); good(l) || time.Now().After(end) {
			return l
		}
	}
}

// leaks tells what is in use beyond the allowances.
func leaks(before, after level, conns int) (all []string) {
	if d := after.Goroutines - before.Goroutines; d > moreGoroutines {
		all = append(all, fmt.Sprintf("%d goroutines more than after the warm-up; %d are allowed", d, moreGoroutines))
	}
	if d := after.Descriptors - before.Descriptors; d > moreDescriptors {
		all = append(all, fmt.Sprintf("%d descriptors more than after the warm-up; %d are allowed", d, moreDescriptors))
	}
	if d, allowed := after.HeapMB-before.HeapMB, heapAllowance(conns); d > allowed {
		all = append(all, fmt.Sprintf("%.1f MB of heap more than after the warm-up; %.1f are allowed", d, allowed))
	}
	if after.Tracked != 0 {
		all = append(all, fmt.Sprintf("%d connections are tracked still", after.Tracked))
	}
	return all
}

func heapAllowance(conns int) float64 { return moreHeapMB + moreHeapByConn*float64(conns) }

// climbs tells what rose with time under a load that stays the same: from the
// second window to the last but one by more than a quarter, and the allowance.
func climbs(windows []window, conns int) (all []string) {
	if len(windows) < 4 {
		return nil
	}
	first, last := windows[1].level, windows[len(windows)-2].level
	for _, c := range []struct {
		what       string
		from, to   float64
		allowedFor float64
	}{
		{"goroutines", float64(first.Goroutines), float64(last.Goroutines), moreGoroutines},
		{"descriptors", float64(first.Descriptors), float64(last.Descriptors), moreDescriptors},
		{"MB of heap", first.HeapMB, last.HeapMB, heapAllowance(conns)},
		{"tracked connections", float64(first.Tracked), float64(last.Tracked), moreDescriptors},
	} {
		if c.to > 1.25*c.from+c.allowedFor {
			all = append(all, fmt.Sprintf("%.1f %s in the second window, but %.1f in the last but one", c.from, c.what, c.to))
		}
	}
	return all
}
