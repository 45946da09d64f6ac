package idle

import (
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A guest is a peer that keeps a diary of how it was ended.
type guest struct {
	conn    Conn
	n       int
	told    int // how often
	toldAt  time.Time
	endedAt time.Time
	err     *TimeoutError
	onDrain func()
}

func (g *guest) OnDrain() {
	g.told++
	g.toldAt = time.Now()
	if g.onDrain != nil {
		g.onDrain()
	}
}

func (g *guest) Expire(err *TimeoutError) { g.endedAt, g.err = time.Now(), err }

// guests are n connections, each active two ticks after the one before.
func (r *rig) guests(n int) (all []*guest) {
	for i := range n {
		g := &guest{n: i}
		r.track(&g.conn, g)
		all = append(all, g)
		time.Sleep(2 * r.opts.Tick)
	}
	return all
}

func (r *rig) mustDrain(d Drain) *Draining {
	r.Helper()
	o, err := r.Drain(d)
	if err != nil {
		r.Fatal(err)
	}
	return o
}

// await waits until o is done, and callbacks have been called.
func (r *rig) await(o *Draining) {
	<-o.Done()
	synctest.Wait()
}

// finishesIn asserts that o is done within d.
func (r *rig) finishesIn(o *Draining, d time.Duration) {
	r.Helper()
	r.wait(d)
	if !isClosed(o.done) {
		r.Fatalf("not done after %v: %d left, %+v", d, o.Left(), r.Stats())
	}
}

// TestDrainEndsTheMostIdleFirst has connections that were idle for up to twelve seconds. Their turns come
// in that order, to within a 64th of the idle time, whatever happens in the drain.
func TestDrainEndsTheMostIdleFirst(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		all := r.guests(600)
		r.do(func() { all[0].conn.Touch() }) // the first one is now the last one
		begun := time.Now()
		o := r.mustDrain(Drain{Duration: time.Minute})
		r.wait(30 * time.Second)
		if n := o.Left(); n < 297 || n > 303 || r.Draining() != o {
			t.Errorf("at half time %d of 600 are left", n)
		}
		r.do(func() { all[599].conn.Touch() })
		r.await(o)
		if took := time.Since(begun); took < time.Minute-time.Second || took > time.Minute+r.late() {
			t.Errorf("it took %v", took)
		}
		for i, g := range append(all[1:600:600], all[0]) {
			want := time.Duration(i+1) * time.Minute / 600
			idle := 20 * time.Millisecond * time.Duration(600-i)
			if off := g.toldAt.Sub(begun.Add(want)).Abs(); off > idle/64*5+200*time.Millisecond { // 20 ms of idle time are 100 ms of the drain
				t.Errorf("guest %d was told %v off %v", g.n, off, want)
			}
			if g.told != 1 || g.err == nil || g.err.Reason != ReasonDrain || g.endedAt.Before(g.toldAt) {
				t.Errorf("guest %d: told %d times, %v", g.n, g.told, g.err)
			}
		}
		st := r.Stats()
		if st.Drained != 600 || st.Live != 0 || st.Tracked != 600 || len(st.TimedOut) > 0 || o.Left() != 0 || r.Draining() != nil {
			t.Errorf("%+v", st)
		}
	})
}

// TestDrainRateIsEven drains connections of several shards. Half of them are active every second, others
// have been idle for equally long or for any time, and a tenth is busy. Turns come at the same rate in
// each second of Duration.
func TestDrainRateIsEven(t *testing.T) {
	const n, seconds = 20_000, 20
	inBubble(t, Policy{IdleTimeout: time.Hour}, &Options{Shards: 3}, true, func(r *rig) {
		rng := rand.New(rand.NewPCG(1, 2))
		var begun time.Time
		var mu sync.Mutex
		var told [seconds + 1]int
		hooks := &Hooks{Expire: func(any, *TimeoutError) {}, OnDrain: func(any) {
			mu.Lock()
			defer mu.Unlock()
			told[time.Since(begun)/time.Second]++
		}}
		conns := make([]Conn, n)
		onLoop := func(i int) bool { return i%4 == 0 }
		some := func(first, last int, f func(c *Conn)) {
			r.do(func() {
				for i := first; i < last; i++ {
					if c := &conns[i]; onLoop(i) {
						f(c)
					}
				}
			})
			for i := first; i < last; i++ {
				if c := &conns[i]; !onLoop(i) {
					f(c)
				}
			}
		}
		r.do(func() {
			for i := range conns {
				track := r.Tracker.Track
				if onLoop(i) {
					track = r.shard.Track
				}
				if err := track(&conns[i], i, hooks); err != nil {
					r.Fatal(err)
				}
			}
		})
		for i := n / 2; i < n*3/4; i += 100 { // a quarter for all kinds of times, and a quarter equally long
			some(i, i+100, (*Conn).Touch)
			r.wait(time.Duration(rng.Int64N(int64(10 * time.Second))))
		}
		some(n*9/10, n, (*Conn).PauseRead)
		active := func() { some(0, n/2, (*Conn).Touch) }
		active()
		r.wait(100 * time.Millisecond)
		begun = time.Now()
		o := r.mustDrain(Drain{Duration: seconds * time.Second})
		for range seconds {
			r.wait(time.Second)
			active()
		}
		r.wait(r.late())
		mu.Lock()
		defer mu.Unlock()
		for second, k := range told {
			if want := n / seconds; second < seconds && (k < want*95/100 || k > want*105/100) || second == seconds && k > want/20 {
				r.Errorf("%d were told in second %d; want %d", k, second, want)
			}
		}
		if left := o.Left(); left < n/10 || left > n/10+n/seconds/20 {
			r.Errorf("%d are left, want the %d that are busy", left, n/10)
		}
		o.Cancel()
	})
}

// TestDrainWaitsForTheBusy: busy connections are told in their turn, and end soon after they fall idle.
func TestDrainWaitsForTheBusy(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		all := r.guests(4)
		busy := r.phaseOf(Policy{Name: "request", NoInterrupt: true})
		sending, unread := true, true
		sends := r.prober(func() SocketState { return SocketState{Sending: sending} })
		reads := r.prober(func() SocketState { return SocketState{Unread: unread} })
		r.do(func() {
			all[0].conn.Enter(busy)
			all[1].conn.PauseRead()
			all[2].conn.AwaitWrite()
		})
		o := r.mustDrain(Drain{})
		r.wait(time.Minute)
		if o.Left() != 5 {
			t.Errorf("%d are left", o.Left())
		}
		for _, g := range all {
			if g.told != 1 {
				t.Errorf("guest %d was told %d times", g.n, g.told)
			}
		}
		for i, falls := range []func(){
			func() { all[0].conn.Enter(r.phase) },
			func() { all[1].conn.AwaitRead() },
			func() { all[2].conn.PauseWrite() },
			func() { sending = false },
			func() { unread = false },
		} {
			r.do(falls)
			if r.wait(100 * time.Millisecond); o.Left() != 4-i {
				t.Errorf("%d are left after %d have fallen idle", o.Left(), i+1)
			}
		}
		if <-o.Done(); sends.Live() || reads.Live() {
			t.Error("not ended")
		}
	})
}

// TestForceAfter ends those that are busy, and not before it has passed.
func TestForceAfter(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour, NoInterrupt: true}, nil, func(r *rig) {
		all := r.guests(3)
		stuck := r.prober(func() SocketState { return SocketState{Sending: true} })
		begun := time.Now()
		o := r.mustDrain(Drain{Duration: time.Second, ForceAfter: 5 * time.Second})
		r.await(o)
		for _, g := range all {
			if d := g.endedAt.Sub(begun); d < 5*time.Second || d > 5*time.Second+r.late() {
				t.Errorf("guest %d ended after %v", g.n, d)
			}
		}
		if len(stuck.expired) != 1 || stuck.expired[0].Reason != ReasonDrain {
			t.Errorf("a peer that doesn't read: %v", stuck.expired)
		}
	})
}

func TestDrainLeavesCloseDelay(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		all := r.guests(2)
		all[0].onDrain = func() { all[0].conn.Stop() } // follows
		o := r.mustDrain(Drain{CloseDelay: 3 * time.Second})
		r.wait(2900 * time.Millisecond)
		if all[0].told != 1 || all[1].err != nil || o.Left() != 1 {
			t.Errorf("%d left, %v", o.Left(), all[1].err)
		}
		r.await(o)
		if d := all[1].endedAt.Sub(all[1].toldAt); d < 3*time.Second || d > 3*time.Second+r.late() {
			t.Errorf("ended %v after it was told", d)
		}
		if st := r.Stats(); st.Drained != 1 || st.Closed != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// TestCloseDelayCountsFromOnDrain has OnDrain be called long after the turn has come, because the loop
// was blocked.
func TestCloseDelayCountsFromOnDrain(t *testing.T) {
	inBubble(t, Policy{IdleTimeout: time.Hour}, nil, true, func(r *rig) {
		g := r.guests(1)[0]
		o := r.mustDrain(Drain{CloseDelay: 3 * time.Second, Duration: 100 * time.Millisecond})
		r.loop.post(func() { time.Sleep(time.Second + 7777*time.Microsecond) })
		r.await(o)
		if d := g.endedAt.Sub(g.toldAt); d < 3*time.Second || d > 3*time.Second+r.late() {
			t.Errorf("ended %v after it was told", d)
		}
	})
}

// TestDrainIncludesNewcomers: they have their turns in what is left of Duration, and at once after it.
func TestDrainIncludesNewcomers(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		r.guests(10)
		busy := r.peer()
		r.do(busy.PauseRead)
		begun := time.Now()
		o := r.mustDrain(Drain{Duration: 10 * time.Second})
		r.wait(5 * time.Second)
		late := r.guests(200) // until after 9 seconds
		r.wait(0)
		for _, g := range late {
			if g.err != nil && g.endedAt.Sub(begun) < 5*time.Second {
				t.Errorf("%d: %v", g.n, g.err)
			}
		}
		r.wait(time.Until(begun.Add(10*time.Second + r.late())))
		if o.Left() != 1 {
			t.Errorf("%d are left after Duration", o.Left())
		}
		if r.shard == nil {
			r.addLoop(func() bool { return true })
		}
		last := r.guests(1)[0]
		r.wait(r.late())
		for _, g := range append(late, last) {
			if g.err == nil || g.err.Reason != ReasonDrain || g.told != 1 {
				t.Errorf("%d was told %d times: %v", g.n, g.told, g.err)
			}
		}
		r.do(busy.AwaitRead)
		r.finishesIn(o, 100*time.Millisecond)
	})
}

// TestDrainIsCancelled, and another one ends the rest.
func TestDrainIsCancelled(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		r.guests(100)
		for range 2 { // of a drain that has only begun, too
			o := r.mustDrain(Drain{Duration: 10 * time.Second})
			o.Cancel()
			r.finishesIn(o, 0)
		}
		r.wait(time.Minute)
		if r.Stats().Live != 100 {
			t.Errorf("%+v", r.Stats())
		}
		o := r.mustDrain(Drain{Duration: 10 * time.Second, CloseDelay: time.Second, ForceAfter: time.Hour})
		r.wait(5 * time.Second)
		o.Cancel()
		if !isClosed(o.done) || r.Draining() != nil {
			t.Error("a drain that was cancelled isn't done")
		}
		left := r.Stats().Live
		r.wait(2 * time.Hour / 3)
		if now := r.Stats().Live; now != left || left < 55 || left > 65 {
			t.Errorf("%d were left, and now %d", left, now)
		}
		o = r.mustDrain(Drain{})
		r.finishesIn(o, r.late())
		if st := r.Stats(); st.Live != 0 || st.Drained != 100 {
			t.Errorf("%+v", st)
		}
		o.Cancel()
	})
}

// TestDrainTakesThePlaceOfAnother: the first one is done at once, and connections that it has told are
// told again.
func TestDrainTakesThePlaceOfAnother(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		all := r.guests(10)
		first := r.mustDrain(Drain{Duration: 10 * time.Second, CloseDelay: time.Hour})
		r.wait(5 * time.Second)
		second := r.mustDrain(Drain{Duration: time.Minute, CloseDelay: time.Second})
		if !isClosed(first.done) || isClosed(second.done) || r.Draining() != second {
			t.Error("the first drain isn't done, or the second one is")
		}
		first.Cancel() // has no effect
		r.finishesIn(second, time.Minute+time.Second+r.late())
		for i, g := range all {
			if n := g.told; g.err == nil || n < 1 || n > 2 || i < 3 && n != 2 || i > 6 && n != 1 {
				t.Errorf("guest %d was told %d times: %v", i, n, g.err)
			}
		}
	})
}

// TestDrainWithinCallbacks drains, ends and visits in OnDrain.
func TestDrainWithinCallbacks(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		all := r.guests(5)
		once := sync.Once{}
		for _, g := range all {
			g.onDrain = func() { once.Do(func() { all[1].conn.End("in OnDrain"); r.mustDrain(Drain{}) }) }
		}
		o := r.mustDrain(Drain{Duration: 5 * time.Second})
		r.finishesIn(o, 2*time.Second)
		if st := r.Stats(); st.Live != 0 || st.Drained+st.Shed != 5 || st.Causes["in OnDrain"] != st.Shed || r.Draining() != nil {
			t.Errorf("%+v", st)
		}
	})
}

// TestDrainEndsWithTheTracker: Done is closed by Close, and by the end of the last connection of a
// tracker that retires. No goroutine stays behind, as the end of the bubble shows.
func TestDrainEndsWithTheTracker(t *testing.T) {
	for _, d := range []Drain{{}, {Duration: time.Hour, CloseDelay: time.Minute, ForceAfter: time.Hour}} {
		for _, after := range []time.Duration{0, time.Minute} {
			onBoth(t, Policy{IdleTimeout: time.Hour, NoInterrupt: true}, nil, func(r *rig) {
				r.guests(10)
				o := r.mustDrain(d)
				if after > 0 {
					r.wait(after)
				}
				r.Tracker.Close()
				r.await(o)
				r.await(r.mustDrain(d)) // there's nothing left to drain
				if r.Draining() != nil {
					t.Error("a drain of a closed tracker is under way")
				}
			})
		}
	}
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		r.guests(50)
		r.Tracker.CloseWhenEmpty()
		o := r.mustDrain(Drain{})
		r.await(o)
		if st := r.Stats(); st.Drained != 50 {
			t.Errorf("%+v", st)
		}
		r.await(r.mustDrain(Drain{Duration: time.Hour})) // the tracker has closed itself
	})
}

// TestDrainDoneWhenAllHaveGone has all leave as soon as they are told, all but one, or nobody to tell.
func TestDrainDoneWhenAllHaveGone(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		if o := r.mustDrain(Drain{Duration: time.Hour}); !isClosed(o.done) {
			t.Error("a drain without connections isn't done")
		}
		for stay := range 2 {
			for _, g := range r.guests(50)[stay:] {
				g.onDrain = func() { g.conn.Stop() }
			}
			o := r.mustDrain(Drain{CloseDelay: time.Hour})
			r.wait(2 * time.Second)
			if o.Left() != stay || isClosed(o.done) != (stay == 0) {
				t.Errorf("%d are left, want %d", o.Left(), stay)
			}
			o.Cancel()
		}
	})
}

// TestDrainExtremes has the shortest and the longest durations.
func TestDrainExtremes(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		for _, d := range []Drain{{}, {Duration: time.Millisecond}, {ForceAfter: time.Millisecond}, {ForceAfter: math.MaxInt64}} {
			for _, n := range []int{0, 1, 50} {
				r.guests(n)
				r.finishesIn(r.mustDrain(d), time.Second)
			}
		}
		g := r.guests(1)[0]
		r.mustDrain(Drain{CloseDelay: math.MaxInt64})
		r.wait(time.Minute)
		if g.err != nil || g.told != 1 {
			t.Errorf("with an endless delay: %v, told %d times", g.err, g.told)
		}
		r.peers(20)
		o := r.mustDrain(Drain{Duration: math.MaxInt64})
		r.wait(time.Minute)
		if n := o.Left(); n != 21 {
			t.Errorf("%d of 21 are left of a drain without an end", n)
		}
		o.Cancel()
	})
}

// TestDrainBesideOnTimeout has OnTimeout run when the turn of its connection comes. The turns of others
// come at the same rate. When OnTimeout has kept the connection, it's drained all the same, and a
// ForceAfter ends it while OnTimeout is running.
func TestDrainBesideOnTimeout(t *testing.T) {
	for _, force := range []time.Duration{0, 10 * time.Second} {
		onDriver(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
			short := r.phaseOf(Policy{IdleTimeout: time.Second})
			slow := &keeper{keep: func(*TimeoutError) bool { time.Sleep(time.Minute); return true }}
			r.track(&slow.Conn, slow)
			slow.Enter(short)
			r.wait(900 * time.Millisecond)
			asked := time.Now()
			all := r.guests(20)
			begun := time.Now()
			o := r.mustDrain(Drain{Duration: 4 * time.Second, ForceAfter: force})
			r.wait(2 * time.Second)
			if n := o.Left(); len(slow.asked) != 1 || n < 8 || n > 13 {
				r.Errorf("at half time %d are left; OnTimeout was called %d times", n, len(slow.asked))
			}
			r.wait(2*time.Second + r.late())
			for i, g := range all {
				if g.err == nil {
					t.Errorf("guest %d is live", i)
				}
			}
			if o.Left() != 1 || !slow.Live() {
				r.Errorf("%d are left", o.Left())
			}
			r.await(o)
			switch end := slow.at; {
			case len(slow.expired) != 1 || slow.expired[0].Reason != ReasonDrain:
				r.Errorf("ended by %v", slow.expired)
			case force > 0 && (end.Sub(begun) < force || end.Sub(begun) > force+r.late()):
				r.Errorf("ended after %v, want %v", end.Sub(begun), force)
			case force == 0 && (end.Sub(asked) < time.Minute || end.Sub(asked) > time.Minute+time.Second):
				r.Errorf("ended %v after OnTimeout was called", end.Sub(asked))
			}
			r.wait(time.Minute) // OnTimeout has returned
		})
	}
}

// TestOnDrainOnceAtATime has a connection be drained while OnDrain is running because
// of MaxAge.
func TestOnDrainOnceAtATime(t *testing.T) {
	onDriver(t, Policy{MaxAge: time.Second, MaxAgeGrace: time.Hour}, nil, func(r *rig) {
		g := &guest{}
		running, calls := atomic.Int32{}, atomic.Int32{}
		g.onDrain = func() {
			if calls.Add(1); running.Add(1) > 1 {
				t.Error("two OnDrains of a connection at once")
			}
			time.Sleep(10 * time.Second)
			running.Add(-1)
		}
		r.track(&g.conn, g)
		r.wait(time.Second + r.late())
		if calls.Load() != 1 {
			r.Fatal("MaxAge has not passed")
		}
		o := r.mustDrain(Drain{})
		r.wait(8 * time.Second)
		if g.err != nil {
			t.Errorf("ended while OnDrain was running: %v", g.err)
		}
		r.finishesIn(o, 5*time.Second)
	})
}

// TestDrainIsWithinTheBudget drains very many connections at once, or ends as many that are busy. Each end
// takes a while. No pass takes longer than it does when limits pass.
func TestDrainIsWithinTheBudget(t *testing.T) {
	n := 100_000
	if raceEnabled && testing.Short() {
		n = 10_000
	}
	const cost = 50 * time.Microsecond
	for name, d := range map[string]Drain{"at once": {}, "forced": {ForceAfter: time.Second}} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, Policy{IdleTimeout: time.Hour, NoInterrupt: d.ForceAfter > 0}, &Options{Shards: 1}, func(r *rig) {
				conns, hooks := make([]Conn, n), &Hooks{Expire: func(any, *TimeoutError) { time.Sleep(cost) }}
				r.do(func() {
					for i := range conns {
						if err := r.trackOf()(&conns[i], i, hooks); err != nil {
							r.Fatal(err)
						}
					}
				})
				r.wait(time.Second)
				was, begun := r.Stats(), time.Now()
				r.await(r.mustDrain(d))
				took := time.Since(begun)
				r.wait(time.Second)
				st := r.Stats()
				if most := r.opts.Budget + jobsPerLock*cost; st.Longest > most {
					r.Errorf("a pass took %v, want at most %v", st.Longest, most)
				}
				if least, spent := time.Duration(n)*cost, st.PassTotal-was.PassTotal; spent < least || took > 8*least {
					r.Errorf("it took %v, passes %v; ends alone take %v", took, spent, least)
				}
			})
		})
	}
}

// TestDrainAmongChanges has connections come, go and be active during a drain, and in its first passes.
// All of them end in time.
func TestDrainAmongChanges(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
				rng := rand.New(rand.NewPCG(seed, 0))
				all := r.guests(50)
				for s := range r.each {
					s.stride = 1 + rng.IntN(3)
				}
				begun := time.Now()
				o := r.mustDrain(Drain{Duration: 3 * time.Second})
				for time.Since(begun) < 2900*time.Millisecond {
					g := all[rng.IntN(len(all))]
					r.do(func() { []func(){g.conn.Touch, func() { g.conn.Stop() }}[rng.IntN(2)]() })
					for range rng.IntN(3) {
						g := &guest{n: len(all)}
						r.track(&g.conn, g)
						all = append(all, g)
					}
					r.wait(time.Duration(rng.Int64N(int64(3 * r.opts.Tick))))
				}
				r.await(o)
				if took := time.Since(begun); took > 3*time.Second+r.late() || len(all) < 100 {
					r.Errorf("a drain of %d took %v", len(all), took)
				}
				for _, g := range all {
					if g.told > 1 || g.err != nil && g.told != 1 {
						r.Errorf("guest %d was told %d times: %v", g.n, g.told, g.err)
					}
				}
			})
		})
	}
}

// TestRaceDrainBesideOnTimeout has connections told and ended whose OnTimeout is running.
func TestRaceDrainBesideOnTimeout(t *testing.T) {
	tr, err := New(Policy{IdleTimeout: 2 * time.Millisecond}, &Options{Tick: time.Millisecond, Shards: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	var wg sync.WaitGroup
	var trackings atomic.Int64
	begun := time.Now()
	over := func() bool { return time.Since(begun) >= raceTime() && trackings.Load() >= 10 }
	for range 8 {
		wg.Go(func() {
			for !over() {
				var c Conn
				o := &slowRacer{}
				if err := tr.Track(&c, o, hooksOf(o)); err != nil {
					t.Error(err)
					return
				}
				trackings.Add(1)
				for c.Live() {
					runtime.Gosched()
				}
			}
		})
	}
	for i := 0; !over(); i++ {
		if _, err := tr.Drain(Drain{ForceAfter: time.Duration(i%2) * time.Millisecond}); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Duration(i%4) * 500 * time.Microsecond)
	}
	wg.Wait()
}

type slowRacer struct{ racer }

func (o *slowRacer) OnTimeout(*TimeoutError) bool {
	time.Sleep(2 * time.Millisecond)
	return false
}

// BenchmarkDrain drains a million connections at once.
func BenchmarkDrain(b *testing.B) {
	if testing.Short() {
		b.Skip("it takes seconds each time")
	}
	const n = 1_000_000
	tr, err := New(Policy{IdleTimeout: time.Hour}, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer tr.Close()
	hooks := &Hooks{Expire: func(any, *TimeoutError) {}}
	longest, busy := time.Duration(0), time.Duration(0)
	var before, after runtime.MemStats
	for b.Loop() {
		b.StopTimer()
		peers := make([]peer, n)
		for i := range peers {
			if err := tr.Track(&peers[i].Conn, &peers[i], hooks); err != nil {
				b.Fatal(err)
			}
		}
		runtime.ReadMemStats(&before)
		was := tr.Stats()
		b.StartTimer()
		o, err := tr.Drain(Drain{})
		if err != nil {
			b.Fatal(err)
		}
		<-o.Done()
		b.StopTimer()
		runtime.ReadMemStats(&after)
		st := tr.Stats()
		if n := o.Left(); n > 0 {
			b.Fatalf("%d are left", n)
		}
		longest, busy = max(longest, st.Longest), busy+st.PassTotal-was.PassTotal
		b.StartTimer()
	}
	b.ReportMetric(float64(longest.Microseconds()), "longest-pass-µs")
	b.ReportMetric(float64(busy.Milliseconds())/float64(b.N), "busy-ms/op")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/n, "B/conn")
}

// TestDrainIsLogged: when a drain is over, one line says how. It's written before Done is closed.
func TestDrainIsLogged(t *testing.T) {
	var log strings.Builder
	opts := &Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	lines := func(r *rig, want ...string) {
		r.Helper()
		text := log.String()
		log.Reset()
		if strings.Count(text, "\n") != len(want) {
			r.Errorf("the log has\n%s", text)
		}
		for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
			if i < len(want) && !strings.HasSuffix(line, `level=INFO msg="idle: a drain is over" `+want[i]) {
				r.Errorf("%q doesn't end with %q", line, want[i])
			}
		}
	}
	onBoth(t, Policy{IdleTimeout: time.Hour}, opts, func(r *rig) {
		log.Reset()
		all := r.guests(7)
		busy, err := r.Phase(Policy{NoInterrupt: true})
		if err != nil {
			r.Fatal(err)
		}
		passing, err := r.Phase(Policy{PhaseTimeout: 100 * time.Millisecond})
		if err != nil {
			r.Fatal(err)
		}
		r.do(func() {
			all[0].conn.Stop() // before the drain
			all[1].conn.Enter(busy)
			all[2].conn.Enter(busy)
			all[3].conn.Enter(passing)
		})
		all[4].onDrain = func() { all[4].conn.Stop() }
		o := r.mustDrain(Drain{Duration: time.Second, CloseDelay: 2 * time.Second, ForceAfter: 5 * time.Second})
		<-o.Done()
		lines(r, "gone=2 ended=2 forced=2 left=0 took="+(time.Since(o.begun)/time.Millisecond*time.Millisecond).String())

		r.guests(3)
		first := r.mustDrain(Drain{Duration: time.Hour})
		second := r.mustDrain(Drain{Duration: time.Hour})
		<-first.Done()
		lines(r, "gone=0 ended=0 forced=0 left=3 took=0s")
		second.Cancel()
		lines(r, "gone=0 ended=0 forced=0 left=3 took=0s")
		second.Cancel()
		lines(r)
		if third := r.mustDrain(Drain{Duration: time.Hour}); r.shard == nil {
			r.Close()
			<-third.Done()
			lines(r, "gone=0 ended=0 forced=0 left=3 took=0s")
		}
	})
}
