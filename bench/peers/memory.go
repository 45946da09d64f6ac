package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/machine"
	"github.com/idlewheel/idlewheel/bench/internal/table"
	"github.com/idlewheel/idlewheel/bench/internal/usage"
	"github.com/idlewheel/idlewheel/bench/peers/contender"
)

// What connections cost that do nothing at all.

// memory is what a connection's timing takes, with all that a contender needs
// to tell which connection has expired.
func memory(n int) workload {
	return workload{
		name: "memory", conns: n,
		measures: []measure{{"memory-heap", "memory of a connection, on the heap, of " + short(n), "bytes"}},
		run: func(t turn) (outcome, error) {
			if t.kind.Unweighed != "" {
				return outcome{Missing: t.kind.Unweighed}, nil
			}
			before := heap()
			return t.steady(func(c contender.Contender) (outcome, error) {
				o := newOutcome("memory-heap", float64(heap()-before)/float64(t.conns))
				runtime.KeepAlive(c)
				return o, nil
			})
		},
	}
}

// heap returns the bytes of the heap, without garbage.
func heap() int64 {
	debug.FreeOSMemory()
	debug.FreeOSMemory() // the first leaves what a finalizer has yet to free
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// collect is what a collection of garbage costs while so many are live.
func collect(n int) workload {
	name := "gc-" + short(n)
	return workload{
		name: name, conns: n,
		measures: []measure{{name, "a garbage collection with " + short(n) + " live, CPU time", "ms"}},
		run: func(t turn) (outcome, error) {
			if t.kind.Unweighed != "" {
				return outcome{Missing: t.kind.Unweighed}, nil
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

// silent is the CPU time of a process whose connections are silent.
func silent(s scale) workload {
	return workload{
		name: "silent", conns: s.Crowd,
		measures: []measure{{"silent-cpu", fmt.Sprintf("%s silent for %v: CPU time", short(s.Crowd), s.Silence), "ms"}},
		run: func(t turn) (outcome, error) {
			return t.steady(func(contender.Contender) (outcome, error) {
				time.Sleep(t.scale.Settle)
				before, known := usage.Self()
				time.Sleep(t.scale.Silence)
				after, _ := usage.Self()
				if !known {
					return outcome{Missing: "CPU time is " + machine.Unknown}, nil
				}
				return newOutcome("silent-cpu", table.Millis(after-before)), nil
			})
		},
	}
}
