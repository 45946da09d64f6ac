package main

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/table"
	"github.com/idlewheel/idlewheel/idle"
)

// Figures are what a connection and an activity cost when nothing else goes on.
type Figures struct {
	// TouchNS is the time of a Touch of a random one of all connections, which
	// is that of a cache miss or two; HotNS that of the same one all the time.
	TouchNS float64 `json:"touch_ns"`
	HotNS   float64 `json:"touch_hot_ns"`

	AllocsPerTouch float64 `json:"allocs_per_touch"`

	// BytesPerConn is by how much the heap has grown for each connection that
	// was made and tracked.
	BytesPerConn float64 `json:"bytes_per_conn"`
}

// measure takes the figures of n connections, and returns their memory with new ones in it.
func measure(n int, opts *idle.Options) (f Figures, conns []idle.Conn, err error) {
	t, err := idle.New(idle.Policy{IdleTimeout: time.Hour}, opts)
	if err != nil {
		return f, nil, err
	}
	before := heap()
	conns = make([]idle.Conn, n)
	owner := new(int) // of connections that nothing is going to happen to
	hooks := &idle.Hooks{Expire: func(any, *idle.TimeoutError) {}}
	for i := range conns {
		if err := t.Track(&conns[i], owner, hooks); err != nil {
			t.Close()
			return f, nil, err
		}
	}
	f.BytesPerConn = table.Round(float64(heap().HeapAlloc-before.HeapAlloc)/float64(n), 1)
	measureTouch(&f, conns)
	_, err = t.Close()
	clear(conns) // a Conn is for one connection
	return f, conns, err
}

// measureTouch takes the figures of Touch.
func measureTouch(f *Figures, conns []idle.Conn) {
	order := make([]uint32, 1<<18) // small enough to leave the cache to the connections
	for i := range order {
		order[i] = uint32(rand.IntN(len(conns)))
	}
	const rounds = 11
	random := make([]float64, 0, rounds)
	hot := make([]float64, 0, rounds)

	before := memory()
	for range rounds {
		begun := time.Now()
		for _, i := range order {
			conns[i].Touch()
		}
		random = append(random, perTouch(begun, len(order)))

		begun = time.Now()
		for range order {
			conns[0].Touch()
		}
		hot = append(hot, perTouch(begun, len(order)))
	}
	allocs := memory().Mallocs - before.Mallocs

	f.TouchNS, f.HotNS = table.Round(median(random), 2), table.Round(median(hot), 2)
	f.AllocsPerTouch = table.Round(float64(allocs)/float64(2*rounds*len(order)), 3)
}

func perTouch(begun time.Time, n int) float64 {
	return float64(time.Since(begun)) / float64(n)
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// heap returns the memory statistics with no garbage in them.
func heap() runtime.MemStats {
	runtime.GC()
	runtime.GC() // the first leaves what a finalizer has yet to free
	return memory()
}

func memory() (m runtime.MemStats) {
	runtime.ReadMemStats(&m)
	return m
}
