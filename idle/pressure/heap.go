package pressure

import (
	"errors"
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Heap returns which share of the Go runtime's memory limit (GOMEMLIMIT, or debug.SetMemoryLimit)
// a garbage collection can't free: the objects that the last one has found alive, and the stacks
// of goroutines. It fails if there is no such limit.
//
// If half of the limit or more is in use, garbage included, and the last collection was
// more than 10 s ago, Heap collects garbage before it returns. Otherwise nobody would
// notice for up to two minutes that the memory of a quiet server has filled up, or is free
// again. Below one half, the result may be that old.
//
// The size of the whole heap would be of no use, because the runtime lets it grow up to the limit
// before it collects the garbage.
func Heap() (float64, error) { return heap(10 * time.Second) }

// heap is Heap. A collection that was longer ago is repeated if its result matters.
func heap(old time.Duration) (float64, error) {
	limit := debug.SetMemoryLimit(-1)
	if limit == math.MaxInt64 {
		return 0, errors.New("pressure: there is no memory limit; set GOMEMLIMIT, or call debug.SetMemoryLimit")
	}
	alive, most := heapNow(uint64(limit))
	if most >= 0.5 && sinceCollection() > old {
		runtime.GC()
		alive, _ = heapNow(uint64(limit))
	}
	return alive, nil
}

// heapNow returns which share of the limit was alive at the last collection, and which may
// be alive now at most.
func heapNow(limit uint64) (alive, most float64) {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(s)
	stacks := s[2].Value.Uint64()
	return share(s[0].Value.Uint64()+stacks, limit), share(s[1].Value.Uint64()+stacks, limit)
}

// sinceCollection returns how long ago the last garbage collection has ended.
func sinceCollection() time.Duration {
	var last debug.GCStats
	debug.ReadGCStats(&last)
	return time.Since(last.LastGC)
}
