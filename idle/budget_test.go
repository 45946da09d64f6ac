package idle

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestBudgetDefersFairly has many connections time out in one tick, each of
// which costs a millisecond. No pass takes them all; those that are deferred
// come in their turn, and are counted.
func TestBudgetDefersFairly(t *testing.T) {
	const n = 300
	onBoth(t, Policy{IdleTimeout: time.Second}, &Options{Shards: 1}, func(r *rig) {
		var order []int
		for i := range n {
			r.with(&peer{onExpire: func() { order = append(order, i); time.Sleep(time.Millisecond) }})
		}
		r.wait(10 * time.Second)
		if len(order) != n || !slices.IsSorted(order) {
			r.Errorf("timed out in the order %v", order)
		}
		if most, longest := jobsPerLock*time.Millisecond, r.Stats().Longest; longest > most || longest < r.opts.Budget {
			r.Errorf("a pass took %v, want at most %v", longest, most)
		}
		// A connection timed out after so many others is late by as many ms.
		if d, most := int(r.Stats().Deferred), n-int(r.opts.Budget/time.Millisecond); d < most-20 || d > most {
			r.Errorf("%d deferred, want %d or a few less", d, most)
		}
	})
}

// TestAnnounceIsOneStep has the driver look at a loop's shard while the loop
// announces what is due: never would let it lie down for good.
func TestAnnounceIsOneStep(t *testing.T) {
	tr := newTracker(t, Policy{IdleTimeout: time.Hour}, nil)
	s, p := tr.own[0], &peer{}
	check(t, s.Track(&p.Conn, p, hooksOf(p)))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 200_000 {
			s.announce(0)
		}
	}()
	for {
		select {
		case <-done:
			return
		default:
		}
		if s.due.Load() == never {
			t.Fatal("nothing is due, it says")
		}
	}
}

// A slice is a pass over a loop's shard, with when it was posted.
type slice struct{ posted, begun, ended time.Time }

// herd has n connections on a loop pass their limit at once. Each costs the loop
// that much to end. The passes are sent as they end.
func herd(t *testing.T, n int, cost time.Duration, opts *Options) (*Tracker, <-chan slice) {
	tr, err := New(Policy{IdleTimeout: time.Second}, opts)
	check(t, err)
	loop, slices := newLoop(), make(chan slice, 10_000)
	var onItsWay atomic.Bool
	s, err := tr.NewShard(func(pass func()) error {
		sl := slice{posted: time.Now()}
		if onItsWay.Swap(true) {
			t.Error("a pass was posted before the last one had ended")
		}
		loop.post(func() {
			sl.begun = time.Now()
			pass()
			sl.ended = time.Now()
			onItsWay.Store(false)
			slices <- sl
		})
		return nil
	})
	check(t, err)
	loop.do(func() {
		for range n {
			c := &peer{onExpire: func() { time.Sleep(cost) }}
			if err := s.Track(&c.Conn, c, hooksOf(c)); err != nil {
				t.Error(err)
			}
		}
	})
	t.Cleanup(func() {
		tr.Close()
		loop.do(func() { s.Close() })
		loop.stop()
	})
	return tr, slices
}

// TestLoopIsShared has a loop spend no more than half of its time on a herd, in
// slices of the budget, and not wait for ticks between them.
func TestLoopIsShared(t *testing.T) {
	const n, cost, budget = 200, 100 * time.Microsecond, time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		tr, slices := herd(t, n, cost, &Options{Shards: 1, Budget: budget})
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := tr.Stats().TimedOut[ReasonIdle]; got != n {
			t.Fatalf("%d of %d timed out", got, n)
		}
		var begun, last slice
		var work time.Duration
		passes := len(slices)
		for len(slices) > 0 {
			s := <-slices
			took, before := s.ended.Sub(s.begun), last.ended.Sub(last.begun)
			if took > budget+cost {
				t.Errorf("a slice took %v", took)
			}
			if alone := s.posted.Sub(last.ended); alone < before {
				t.Errorf("after a slice of %v the loop was left alone for %v", before, alone)
			}
			if work == 0 {
				begun = s
			}
			work += took
			last = s
		}
		if took := last.ended.Sub(begun.begun); work != n*cost || took > 2*work+tr.opts.Tick {
			t.Errorf("%v of work took %v", work, took)
		}
		if most := int(work/budget) + 5; passes > most { // of which some only looked, before the limit
			t.Errorf("%d passes, want %d at most", passes, most)
		}
	})
}

// TestNoSliceAfterClose closes the tracker while there is a backlog.
func TestNoSliceAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, slices := herd(t, 1000, 100*time.Microsecond, &Options{Shards: 1, Budget: time.Millisecond})
		for range 20 {
			<-slices
		}
		tr.Close()
		closed := time.Now()
		time.Sleep(time.Second)
		synctest.Wait()
		for len(slices) > 0 {
			if s := <-slices; s.posted.After(closed) {
				t.Errorf("posted %v after Close", s.posted.Sub(closed))
			}
		}
	})
}

// TestLoopThatTakesNoPasses is asked again once a tick, and no more often.
func TestLoopThatTakesNoPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, err := New(Policy{IdleTimeout: time.Second}, &Options{Tick: defaultTick})
		check(t, err)
		asked := 0
		s, err := tr.NewShard(func(func()) error { asked++; return ErrClosed })
		check(t, err)
		p := &peer{}
		check(t, s.Track(&p.Conn, p, hooksOf(p)))
		time.Sleep(2 * time.Second)
		tr.Close()
		s.Close()
		if asked < 90 || asked > 150 { // from its first look on, before the limit
			t.Errorf("asked %d times in 100 ticks and some", asked)
		}
	})
}

// TestLoopGoesOnAfterACallbackThatBlocks has a callback hold up a loop for long. What
// was due meanwhile does not wait for as long again.
func TestLoopGoesOnAfterACallbackThatBlocks(t *testing.T) {
	const stall = 300 * time.Millisecond
	inBubble(t, Policy{IdleTimeout: time.Second}, nil, true, func(r *rig) {
		r.with(&peer{onExpire: func() { time.Sleep(stall) }})
		r.wait(100 * time.Millisecond)
		p := r.peer()
		began := time.Now()
		r.wait(3 * time.Second)
		if took, most := p.at.Sub(began), 900*time.Millisecond+stall+(graceTicks+4)*r.opts.Tick; len(p.expired) != 1 || took > most {
			r.Errorf("timed out after %v, want %v at most: %v", took, most, p.expired)
		}
	})
}

// backlog has n connections time out in the same tick, each of which costs the driver so
// much time. It returns how late the last one is.
func backlog(t *testing.T, n int, cost time.Duration, opts *Options) (last time.Duration) {
	onDriver(t, Policy{IdleTimeout: time.Second}, opts, func(r *rig) {
		var mu sync.Mutex
		var ended int
		due := time.Now().Add(time.Second)
		for range n {
			r.with(&peer{onExpire: func() {
				time.Sleep(cost)
				late := time.Since(due)
				mu.Lock()
				defer mu.Unlock()
				ended++
				last = max(last, late)
			}})
		}
		if r.Stats().BacklogAge != 0 {
			t.Error("behind before anything is due")
		}
		r.wait(time.Second + 5*r.opts.Tick)
		mu.Lock()
		begun := ended
		mu.Unlock()
		if st := r.Stats(); begun < n && (st.BacklogAge < 3*r.opts.Tick || st.BacklogAge > time.Since(due)+r.opts.Tick) {
			t.Errorf("%d of %d have ended after 5 ticks; Behind is %v", begun, n, st.BacklogAge)
		}
		r.wait(time.Duration(n) * cost * 10)
		if st := r.Stats(); ended != n || st.BacklogAge != 0 {
			t.Errorf("%d of %d have ended; Behind is %v", ended, n, st.BacklogAge)
		}
	})
	return last
}

// TestBoundOfABacklog holds how late the last connection of a herd is against the
// formula in DESIGN.md, "Backlogs", for several numbers of shards and processors.
func TestBoundOfABacklog(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	const n, cost = 4000, 50 * time.Microsecond
	for _, procs := range []int{1, 2, 4, 8} {
		runtime.GOMAXPROCS(procs)
		for _, shards := range []int{1, 2, 3, 8} {
			opts := &Options{Shards: shards}
			last := backlog(t, n, cost, opts)
			const tick, budget = defaultTick, defaultTick / 2
			lanes := min(procs, shards)
			ticks := n * cost / (budget * time.Duration(lanes)) // of passes at their budget
			most := (ticks+4)*tick + jobsPerLock*cost*time.Duration(shards)
			if shards%lanes != 0 { // one lane has a shard more
				most = most * 2
			}
			t.Logf("%d shards, %d processors: the last is %v late, at most %v", shards, procs, last, most)
			if last > most {
				t.Errorf("%d shards, %d processors: the last is %v late, want at most %v", shards, procs, last, most)
			}
		}
	}
}
