package main

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/machine"
	"github.com/idlewheel/idlewheel/bench/internal/table"
	"github.com/idlewheel/idlewheel/bench/peers/contender"
)

// A workload is something that all contenders go through.
type workload struct {
	name     string
	conns    int
	each     bool // its figures are per connection, so fewer of them can be compared
	measures []measure
	run      func(t turn) (outcome, error)
}

// A measure is a figure that a workload yields: a table of the result.
type measure struct{ name, title, unit string }

// A turn is one run of a workload with a contender, in a process of its own.
type turn struct {
	kind  contender.Kind
	conns int
	scale
	before int64 // the heap before the contender was made
}

// An outcome is what came of a turn.
type outcome struct {
	Values map[string]float64 `json:"values"` // by measure
	Early  int                `json:"early"`
	Lost   int                `json:"lost"`
}

// A scale is how large the workloads are.
type scale struct {
	sizes []int // random resets among so many
	crowd int   // going stale, in memory, live while garbage is collected
	busy  int   // live while others are armed and cancelled

	timed       time.Duration // how long resets are timed
	spread      time.Duration // over which the crowd is last active
	spreadStale time.Duration // the timeout then; longer, so that it does not overlap
	onceStale   time.Duration // the timeout of those last active at once
	limit       time.Duration // of a turn
}

func scaleOf(quick bool) scale {
	const ms, s = time.Millisecond, time.Second
	if quick {
		return scale{[]int{1_000, 100_000}, 20_000, 10_000, 10 * ms, 200 * ms, 300 * ms, 200 * ms, 10 * s}
	}
	return scale{[]int{10_000, 1_000_000}, 1_000_000, 100_000, 200 * ms, 5 * s, 6 * s, 5 * s, 120 * s}
}

// workloads returns all there are, in the order of presentation.
func workloads(quick bool) []workload {
	s := scaleOf(quick)
	all := []workload{reset("reset-hot", "reset of one hot connection", 1, chunk)}
	for _, n := range s.sizes {
		all = append(all, reset("reset-random-"+short(n), "reset of a random connection among "+short(n), n, 1<<20))
	}
	return append(all, armCancel(s.busy), memory(s.crowd), collect(s.crowd),
		stale("stale-spread", fmt.Sprintf("%s going stale over %v", short(s.crowd), s.spread), s.crowd, s.spreadStale, s.spread),
		stale("stale-at-once", short(s.crowd)+" going stale at once", s.crowd, s.onceStale, 0))
}

// short writes a number of connections, thousands of them, as people say it.
func short(n int) string {
	if n >= 1_000_000 {
		return fmt.Sprintf("%dM", n/1_000_000)
	}
	return fmt.Sprintf("%dk", n/1_000)
}

// steady is a workload with one figure, of connections that are not to go stale. It counts those
// that expire all the same.
func steady(w workload, title, unit string, run func(t turn, c contender.Contender) float64) workload {
	w.measures = []measure{{w.name, title, unit}}
	w.run = func(t turn) (outcome, error) {
		var early atomic.Int64
		const timeout = time.Minute
		start := time.Now()
		t.before = heap()
		c, err := t.kind.New(t.conns, timeout, func(int) {
			if time.Since(start) < timeout {
				early.Add(1)
			}
		})
		if err != nil {
			return outcome{}, err
		}
		defer c.Close()
		for i := range t.conns {
			c.Arm(i)
		}
		v := run(t, c)
		return outcome{Values: map[string]float64{w.name: v}, Early: int(early.Load())}, nil
	}
	return w
}

// chunk is how many resets there are between two readings of the clock.
const chunk = 1 << 12

// reset resets the connections of a random list again and again, and measures the time of
// a reset.
func reset(name, title string, n, length int) workload {
	return steady(workload{name: name, conns: n}, title, "ns", func(t turn, c contender.Contender) float64 {
		list := make([]uint32, length)
		for i := range list {
			list[i] = uint32(rand.IntN(t.conns))
		}
		resetFor := func(while time.Duration) float64 {
			begun, done := time.Now(), 0
			for time.Since(begun) < while {
				at := done % len(list)
				part := list[at:min(at+chunk, len(list))]
				c.Touch(part)
				done += len(part)
			}
			return float64(time.Since(begun)) / float64(done)
		}
		resetFor(t.timed / 4) // warms up
		return resetFor(t.timed)
	})
}

// armCancel measures what opening and closing a connection costs while others are live.
func armCancel(others int) workload {
	const coming = 1 << 10
	title := "arm and cancel, with " + short(others) + " others live"
	return steady(workload{name: "arm-cancel", conns: others + coming, each: true}, title, "ns", func(t turn, c contender.Contender) float64 {
		others := t.conns - coming
		for i := others; i < t.conns; i++ {
			c.Cancel(i)
		}
		begun, done := time.Now(), 0
		for ; time.Since(begun) < t.timed; done += coming {
			for i := others; i < t.conns; i++ {
				c.Arm(i)
				c.Cancel(i)
			}
		}
		return float64(time.Since(begun)) / float64(done)
	})
}

// memory measures what the timing of a connection takes of the heap, with all that a
// contender needs to tell which connection has expired.
func memory(n int) workload {
	return steady(workload{name: "memory", conns: n}, "heap of a connection, of "+short(n), "bytes", func(t turn, c contender.Contender) float64 {
		return float64(heap()-t.before) / float64(t.conns)
	})
}

// heap returns the bytes of the heap, without garbage.
func heap() int64 {
	debug.FreeOSMemory()
	debug.FreeOSMemory() // the first leaves what a finalizer has yet to free
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// collect measures a garbage collection while so many are live.
func collect(n int) workload {
	const times = 3
	return steady(workload{name: "gc", conns: n}, "CPU time of a garbage collection with "+short(n)+" live", "ms", func(t turn, c contender.Contender) float64 {
		runtime.GC() // what arming has left behind
		sample := []metrics.Sample{{Name: "/cpu/classes/gc/total:cpu-seconds"}}
		metrics.Read(sample)
		before := sample[0].Value.Float64()
		for range times {
			runtime.GC()
		}
		metrics.Read(sample)
		return 1e3 * (sample[0].Value.Float64() - before) / times
	})
}

// stale has all connections armed and touched once more, and then silent for good. The
// cost is that from the last touch to the last expiry.
func stale(name, what string, crowd int, timeout, spread time.Duration) workload {
	return workload{
		name: name, conns: crowd, each: true,
		measures: []measure{
			{name + "-cpu", what + ": CPU time for each", "µs"},
			{name + "-late-p50", what + ": lateness, median", "ms"},
			{name + "-late-max", what + ": lateness, greatest", "ms"},
		},
		run: func(t turn) (outcome, error) {
			l := newLedger(t.conns, timeout)
			c, err := t.kind.New(t.conns, timeout, l.expire)
			if err != nil {
				return outcome{}, err
			}
			defer c.Close()
			for i := range t.conns {
				l.touch(i)
				c.Arm(i)
			}
			// One that has fewer connections has them at the same rate.
			l.touchAll(c, time.Duration(float64(t.conns)/float64(crowd)*float64(spread)))
			before := machine.Self()
			l.await()
			after := machine.Self()
			early, lost, late := l.judge()
			o := outcome{Early: early, Lost: lost, Values: map[string]float64{}}
			if len(late) > 0 {
				o.Values[name+"-cpu"] = float64(after-before) / float64(t.conns) / float64(time.Microsecond)
				o.Values[name+"-late-p50"] = table.Millis(late[len(late)/2])
				o.Values[name+"-late-max"] = table.Millis(late[len(late)-1])
			}
			return o, nil
		},
	}
}

// A ledger knows when each connection was last active, and when it expired. Contenders are
// held to it.
type ledger struct {
	start   time.Time
	timeout time.Duration
	active  []atomic.Int64 // since start; noted before the contender is told, so early is early
	expired []atomic.Int64 // since start; 0 if it has not
	count   atomic.Int64
	all     chan struct{} // closed when all have expired
}

func newLedger(n int, timeout time.Duration) *ledger {
	return &ledger{start: time.Now(), timeout: timeout, active: make([]atomic.Int64, n), expired: make([]atomic.Int64, n), all: make(chan struct{})}
}

// touch notes that a connection is active, and reports whether it still can be.
func (l *ledger) touch(i int) bool {
	if l.expired[i].Load() != 0 {
		return false
	}
	l.active[i].Store(int64(time.Since(l.start)))
	return true
}

// touchAll touches each connection once, evenly over a while.
func (l *ledger) touchAll(c contender.Contender, while time.Duration) {
	begun, n := time.Now(), len(l.active)
	for done := 0; done < n; time.Sleep(time.Millisecond) {
		due := n
		if gone := time.Since(begun); gone < while {
			due = int(float64(n) * float64(gone) / float64(while))
		}
		for ; done < due; done++ {
			if l.touch(done) {
				c.Touch([]uint32{uint32(done)})
			}
		}
	}
}

// expire is what contenders call.
func (l *ledger) expire(i int) {
	if l.expired[i].CompareAndSwap(0, int64(time.Since(l.start))) && l.count.Add(1) == int64(len(l.expired)) {
		close(l.all)
	}
}

// await returns when all have expired, or nothing has for 5 s after the last was due. It
// sleeps meanwhile, because its CPU time would be the contender's.
func (l *ledger) await() {
	const patience = 5 * time.Second
	for seen, wait := int64(-1), l.timeout+patience; seen != l.count.Load(); wait = patience {
		seen = l.count.Load()
		select {
		case <-l.all:
			return
		case <-time.After(wait):
		}
	}
}

// judge returns how many expired early, how many never, and how late those were that did.
func (l *ledger) judge() (early, lost int, late []time.Duration) {
	for i := range l.expired {
		at := l.expired[i].Load()
		if at == 0 {
			lost++
			continue
		}
		d := time.Duration(at-l.active[i].Load()) - l.timeout
		if d < 0 {
			early++
		}
		late = append(late, d)
	}
	slices.Sort(late)
	return early, lost, late
}
