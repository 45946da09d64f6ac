package pressure

import (
	"runtime"
	"sync"
	"time"
)

// CPU returns a function for [Config].Read that returns which share of its CPU time the process
// has used since the last call, or for the first call since CPU was called. Its CPU time is that
// of GOMAXPROCS processors, which since Go 1.25 follows the CPU limit of a container. A limit of
// one and a half processors makes GOMAXPROCS 2, so the highest reading is 0.75 then.
//
// A process that has to share its processors with others may be short of CPU at a low reading.
// Use CPU if idle connections cost your server CPU, for example because it pings them: then it
// should close them earlier while it's busy. CPU doesn't help against load from requests, because
// closing connections costs CPU itself, and clients that come back at once cost even more.
//
// A reading of less than 10 ms repeats the last one. The function may be called from any
// goroutine. It fails on systems other than Unix and Windows.
func CPU() func() (float64, error) {
	var mu sync.Mutex
	var share float64
	last, err := cpuNow()
	return func() (float64, error) {
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			return 0, err
		}
		now, err := cpuNow()
		if err != nil {
			return 0, err
		}
		if now.at.Sub(last.at) >= leastCPU {
			share = now.share(last, runtime.GOMAXPROCS(0))
			last = now
		}
		return share, nil
	}
}

// leastCPU is the least time over which CPU measures. Some systems count in steps of 10 ms.
const leastCPU = 10 * time.Millisecond

// A cpuTime is how much CPU time the process had used at a time.
type cpuTime struct {
	at   time.Time
	used time.Duration
}

// share returns which share of the CPU time of so many processors was used since before.
func (t cpuTime) share(before cpuTime, processors int) float64 {
	had := t.at.Sub(before.at) * time.Duration(processors)
	if used := t.used - before.used; had > 0 && used > 0 {
		return share(uint64(used), uint64(had))
	}
	return 0
}

func cpuNow() (cpuTime, error) {
	used, err := cpuUsed()
	return cpuTime{time.Now(), used}, err
}
