package pressure

import (
	"errors"
	"math"
	"runtime/debug"
	"runtime/metrics"
)

// Heap returns which share of the memory limit of the Go runtime (GOMEMLIMIT, or
// debug.SetMemoryLimit) is taken by what a garbage collection cannot free: the objects
// that the last one has found alive, and the stacks of goroutines. It fails if there is
// no such limit.
//
// All of the heap would be of no use: the runtime lets it grow up to the limit by
// garbage before it collects.
func Heap() (float64, error) {
	limit := debug.SetMemoryLimit(-1)
	if limit == math.MaxInt64 {
		return 0, errors.New("pressure: there is no memory limit; set GOMEMLIMIT, or call debug.SetMemoryLimit")
	}
	taken := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(taken)
	return share(taken[0].Value.Uint64()+taken[1].Value.Uint64(), uint64(limit)), nil
}
