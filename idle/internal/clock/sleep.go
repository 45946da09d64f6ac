package clock

import (
	"math"
	"sync/atomic"
	"time"
)

// While the clock runs, the driver wakes up once a tick. While it sleeps, each activity reads the
// real clock. Which is cheaper depends on the number of activities: a wake-up of the driver costs
// about as much as readsPerTick readings. Most of that is spent in Go's scheduler. On 2026-11-20,
// BenchmarkWakeUp and BenchmarkTouchAsleep measured 36 µs and 60 ns.
const (
	readsPerTick = 512

	// A sleeping clock allows this many readings at once. So a short burst doesn't wake it, and a
	// burst that does has cost no more than the few ticks for which the clock then runs.
	burstOfReads = 8 * readsPerTick

	// A running clock falls asleep after some quiet ticks: those with fewer slow paths than
	// FewSlowPaths. An activity reads the time up to three times, at both ends of a wait and in
	// between. So the load at which the clock falls asleep is far below the load that wakes it.
	FewSlowPaths = 64

	// How many ticks must be quiet. If the clock is woken again soon, such as by one connection
	// that is active all the time, the number doubles for the next time.
	leastQuiet, mostQuiet = 8, 512
)

// An allowance limits how many readings of the real clock a sleeping clock allows. Each uses up
// some time, and the time used up can't be ahead of the real time. This is the generic cell rate
// algorithm (ITU-T I.371).
type allowance struct {
	each time.Duration // what one reading uses up
	most time.Duration // how much can be saved up
	used atomic.Int64  // up to which Clock.Elapsed all is used up; withdrawn while the clock runs
}

const withdrawn = math.MaxInt64

// take takes the allowance for one reading, which returned the given time. It reports whether
// there was one.
func (a *allowance) take(at time.Duration) bool {
	for {
		used := a.used.Load()
		if used == withdrawn {
			return false
		}
		next := max(used, int64(at-a.most)) + int64(a.each)
		if next > int64(at) {
			return false
		}
		if a.used.CompareAndSwap(used, next) {
			return true
		}
	}
}

// grant gives the full allowance.
func (a *allowance) grant() { a.used.Store(0) }

// withdraw makes take fail from now on. Readings that it has allowed were made before withdraw
// returns.
func (a *allowance) withdraw() { a.used.Store(withdrawn) }

// A Tuning says when a clock falls asleep and wakes up. All but tests use
// [DefaultTuning].
type Tuning struct {
	Each, Burst time.Duration // what a reading uses up, and how much can be saved up
	Few         uint32        // a tick with fewer slow paths is quiet
	Need, Most  int64         // how many quiet ticks it takes to fall asleep: at first, and at most
}

// DefaultTuning returns what suits a clock with the given tick.
func DefaultTuning(tick time.Duration) Tuning {
	each := tick / readsPerTick
	return Tuning{Each: each, Burst: burstOfReads * each, Few: FewSlowPaths, Need: leastQuiet, Most: mostQuiet}
}

// Tune replaces the tuning. Nobody else may use k at the same time.
func (k *Clock) Tune(t Tuning) {
	k.allowance.each, k.allowance.most = t.Each, t.Burst
	k.quiet = quiet{few: t.Few, need: t.Need, most: t.Most}
}

// A quiet counts quiet ticks of a running clock.
type quiet struct {
	few     uint32 // a tick with fewer slow paths is quiet
	need    int64  // how many quiet ticks it takes
	most    int64  // how many it can take
	running bool   // the clock ran at the last look
	last    int64  // the last tick that was not quiet
	slept   int64  // the tick at which the clock last fell asleep
}

// Rest puts a running clock to sleep after enough quiet ticks. The driver calls it once a
// tick, with the number of slow paths since the last call.
func (k *Clock) Rest(now int64, slowPaths uint32) {
	q := &k.quiet
	switch {
	case k.Sleeping():
		return
	case !q.running: // it was woken
		if q.last = now; now-q.slept < q.need {
			q.need = min(2*q.need, q.most)
		} else {
			q.need = min(leastQuiet, q.most)
		}
	case slowPaths >= q.few:
		q.last = now
	}
	if q.running = now-q.last < q.need; !q.running {
		q.slept = now
		k.Sleep()
	}
}
