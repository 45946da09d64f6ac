package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"

	"github.com/idlewheel/idlewheel/bench/internal/machine"
	"github.com/idlewheel/idlewheel/bench/internal/usage"
	"github.com/idlewheel/idlewheel/bench/peers/contender"
)

// memory is what a connection's timing takes, with all that a contender needs
// to tell which connection has expired.
func memory(n int) workload {
	return workload{
		name: "memory", conns: n,
		measures: []measure{
			{"memory-heap", "memory of a connection, on the heap, of " + short(n), "bytes"},
			{"memory-resident", "memory of a connection, resident, of " + short(n), "bytes"},
		},
		run: runMemory,
	}
}

func runMemory(t turn) (outcome, error) {
	if t.kind.Unweighed != "" {
		return nothing(t.kind.Unweighed), nil
	}
	heap, rss := footprint()
	return t.steady(func(c contender.Contender) (outcome, error) {
		heapThen, rssThen := footprint()
		each := func(before, after uint64) float64 { return (float64(after) - float64(before)) / float64(t.conns) }
		o := newOutcome("memory-heap", each(heap, heapThen))
		if rss > 0 && rssThen > 0 {
			o.Values["memory-resident"] = each(rss, rssThen)
		} else {
			o.missing("memory-resident", "how much memory is resident is "+machine.Unknown)
		}
		runtime.KeepAlive(c)
		return o, nil
	})
}

// footprint returns the bytes of the heap and of the process, without garbage.
func footprint() (heap, rss uint64) {
	debug.FreeOSMemory()
	debug.FreeOSMemory() // the first leaves what a finalizer has yet to free
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc, usage.Resident(os.Getpid())
}

// collect is what a collection of garbage costs while so many are live.
func collect(n int) workload {
	name := "gc-" + short(n)
	return workload{
		name: name, conns: n, slow: n > 1_000_000,
		measures: []measure{{name, "a garbage collection with " + short(n) + " live, CPU time", "ms"}},
		run: func(t turn) (outcome, error) {
			if t.kind.Unweighed != "" {
				return nothing(t.kind.Unweighed), nil
			}
			return t.steady(func(c contender.Contender) (outcome, error) {
				runtime.GC() // what arming has left behind
				before := collecting()
				for range t.scale.GCs {
					runtime.GC()
				}
				used := collecting() - before
				runtime.KeepAlive(c)
				return newOutcome(name, 1e3*used/float64(t.scale.GCs)), nil
			})
		},
	}
}

// collecting returns the seconds of CPU that collecting garbage has taken.
func collecting() float64 {
	sample := []metrics.Sample{{Name: "/cpu/classes/gc/total:cpu-seconds"}}
	metrics.Read(sample)
	return sample[0].Value.Float64()
}
