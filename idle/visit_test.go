package idle

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A visitLog notes which connections are visited.
type visitLog struct {
	done chan struct{} // closed when the visit is over
	err  error         // of Visit
	mu   sync.Mutex
	seen []Info
}

func (w *visitLog) add(i Info) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, i)
}

// goVisiting calls Visit.
func (r *rig) goVisiting() *visitLog {
	w := &visitLog{done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.err = r.Visit(r.Context(), w.add)
	}()
	synctest.Wait() // it has begun
	return w
}

// goSlowly begins a visit that visits one connection in each pass of a shard. It isn't a Visit, which
// has a lock while its function is running, so that no virtual time passes for another shard that waits.
func (r *rig) goSlowly() *visitLog {
	for s := range r.each {
		if s.stride != 1 { // another visit may be under way
			s.stride = 1
		}
	}
	w := &visitLog{}
	w.done = r.visit(func(_ *Shard, some []*Conn) {
		for _, c := range some {
			w.add(Info{Owner: c.owner})
			time.Sleep(r.opts.Budget)
		}
	}).done
	return w
}

// visits returns what was seen until now.
func (w *visitLog) visits() []Info {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[:len(w.seen):len(w.seen)]
}

// times returns how often o was visited.
func (w *visitLog) times(o any) (n int) {
	for _, i := range w.visits() {
		if i.Owner == o {
			n++
		}
	}
	return n
}

// finishes waits for the end of a visit of n connections, one in each pass.
func (r *rig) finishes(w *visitLog, n int) {
	r.Helper()
	r.wait(time.Duration(n+3) * r.opts.Tick)
	if !isClosed(w.done) || w.err != nil {
		r.Fatalf("the visit of %d: over %v, %v", len(w.visits()), isClosed(w.done), w.err)
	}
}

func (r *rig) peers(n int) (all []*peer) {
	r.Helper()
	for range n {
		all = append(all, r.peer())
	}
	return all
}

// visitsOnce asserts that each of all was visited once, and no other one.
func (r *rig) visitsOnce(w *visitLog, all []*peer) {
	r.Helper()
	for i, p := range all {
		if n := w.times(p); n != 1 {
			r.Errorf("%d of %d was visited %d times", i, len(all), n)
		}
	}
	if n := len(w.visits()); n != len(all) {
		r.Errorf("%d visits, want %d", n, len(all))
	}
}

// infos visits all connections, and returns what it has seen of each.
func (r *rig) infos() map[any]Info {
	r.Helper()
	all := map[any]Info{}
	check(r, r.Visit(r.Context(), func(i Info) { all[i.Owner] = i }))
	return all
}

// endInVisit calls end for each connection, and waits until those that it ends have ended.
func (r *rig) endInVisit(end func(*Info)) {
	r.Helper()
	check(r, r.Visit(r.Context(), func(i Info) { end(&i) }))
	r.wait(r.late())
}

// TestVisitIsInSteps has visits that take half of a tick, which is the budget. There is
// one in each tick, and the rest of it is left to others.
func TestVisitIsInSteps(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Minute}, &Options{Shards: 1}, func(r *rig) {
		all, begun := r.peers(20), time.Now()
		w := r.goSlowly()
		<-w.done
		if took := time.Since(begun) / r.opts.Tick; took < 18 || took > 22 {
			r.Errorf("the visit took %d ticks, want 20", took)
		}
		r.visitsOnce(w, all)
	})
}

// TestVisitBesideHerd has more time out than the budget allows, for longer than a visit may take.
func TestVisitBesideHerd(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Minute}, &Options{Shards: 1}, func(r *rig) {
		herd := r.phaseOf(Policy{IdleTimeout: time.Second})
		for range 1000 {
			p := r.with(&peer{onExpire: func() { time.Sleep(r.opts.Budget / 4) }})
			r.do(func() { p.Enter(herd) })
		}
		r.wait(time.Second + r.late())
		all := r.peers(10)
		for s := range r.each {
			s.stride = 200 // connections, of 1010
		}
		w := r.goVisiting()
		r.wait(6 * time.Duration(len(all)) * r.opts.Tick)
		for i, p := range all {
			if w.times(p) == 0 { // twice if it takes the place of one that has ended
				r.Errorf("%d of %d was not visited", i, len(all))
			}
		}
		if left := r.Stats().Live; left < 200 {
			r.Errorf("the herd has passed; %d are left", left)
		}
	})
}

// TestCloseEndsVisits closes a tracker during a visit that waits for a loop that is blocked.
func TestCloseEndsVisits(t *testing.T) {
	inBubble(t, Policy{IdleTimeout: time.Minute}, nil, true, func(r *rig) {
		r.peers(5)
		resume := r.block()
		w := r.goVisiting()
		r.Tracker.Close()
		resume()
		r.wait(time.Second)
		if !isClosed(w.done) || w.err != ErrClosed || len(w.visits()) > 0 {
			r.Errorf("Visit during Close: %v, after %d visits", w.err, len(w.visits()))
		}
	})
}

// TestRetireEndsVisits has the last connection end during a visit.
func TestRetireEndsVisits(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Minute}, nil, func(r *rig) {
		all := r.peers(10)
		w := r.goSlowly()
		r.Tracker.CloseWhenEmpty()
		r.wait(2 * r.opts.Tick)
		r.do(func() {
			for _, p := range all {
				p.Stop()
			}
		})
		r.wait(r.opts.Tick)
		if !isClosed(w.done) || len(w.visits()) == len(all) {
			r.Errorf("the visit has ended: %v, after %d calls", isClosed(w.done), len(w.visits()))
		}
	})
}

// TestVisitLetsTheClockSleep visits while nothing is active.
func TestVisitLetsTheClockSleep(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Minute}, nil, func(r *rig) {
		all := r.peers(10)
		r.wait(2 * time.Second)
		if !r.clock.Sleeping() {
			r.Fatal("the clock is awake")
		}
		w := r.goSlowly()
		r.finishes(w, len(all))
		r.visitsOnce(w, all)
		if !r.clock.Sleeping() {
			r.Error("the visit has woken the clock")
		}
	})
}

// block has the loop of r wait until the function that it returns is called.
func (r *rig) block() (resume func()) {
	goOn := make(chan struct{})
	r.loop.post(func() { <-goOn })
	return sync.OnceFunc(func() { close(goOn) })
}

// TestVisitBesideABlockedLoop visits once a second for ten minutes, and gives up each time. That leaves
// nothing behind, holds up no other shard, and nobody is called when the loop goes on. A later visit is complete.
func TestVisitBesideABlockedLoop(t *testing.T) {
	inBubble(t, Policy{IdleTimeout: time.Hour}, nil, true, func(r *rig) {
		r.peers(5)
		driven := r.driven(1)[0]
		resume := r.block()
		defer resume()
		waits := r.goVisiting()
		calls := 0
		for range 600 {
			ctx, cancel := context.WithTimeout(r.Context(), time.Second)
			calls = 0
			err := r.Visit(ctx, func(i Info) {
				if calls++; i.Owner != driven {
					r.Error("a connection of the blocked loop is visited")
				}
			})
			if !errors.Is(err, context.DeadlineExceeded) || calls != 1 {
				r.Fatalf("%d calls: %v", calls, err)
			}
			cancel()
		}
		if v, m := &r.shard.visits, &r.shard.mail; len(v.all) != 1 || cap(v.all) > 16 || cap(m.tasks) > 0 {
			r.Errorf("the blocked shard has %d visits in %d places, and places for %d tasks", len(v.all), cap(v.all), cap(m.tasks))
		}
		resume()
		r.finishes(waits, 1)
		if n := len(waits.visits()); n != 6 || calls != 1 || len(r.infos()) != 6 {
			r.Errorf("the visit that has waited: %d calls; one that was given up has called %d times", n, calls)
		}
	})
}

// TestVisitGivenUpInACall has the context of a Visit end while its function is running. Visit waits for
// that call, and there is none afterwards.
func TestVisitGivenUpInACall(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		r.peers(20)
		ctx, cancel := context.WithCancelCause(r.Context())
		why, calls, running := errors.New("why"), 0, atomic.Bool{}
		err := r.Visit(ctx, func(Info) {
			running.Store(true)
			defer running.Store(false)
			calls++
			cancel(why)
			for range 1000 {
				runtime.Gosched()
			}
		})
		before := calls
		if running.Load() || !errors.Is(err, why) {
			r.Errorf("after %d calls: %v; one is running: %v", calls, err, running.Load())
		}
		if r.wait(time.Minute); calls != before {
			r.Errorf("%d calls after Visit has returned", calls-before)
		}
	})
}
