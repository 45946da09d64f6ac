package idle

import (
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// guests are n connections, each active two ticks after the one before.
func (r *rig) guests(n int) (all []*peer) {
	for i := range n {
		g := r.with(&peer{n: i})
		all = append(all, g)
		time.Sleep(2 * r.opts.Tick)
	}
	return all
}

func (r *rig) mustDrain(d Drain) *Draining {
	r.Helper()
	o, err := r.Drain(d)
	check(r, err)
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
		r.do(func() { all[0].Touch() }) // the first one is now the last one
		begun := time.Now()
		o := r.mustDrain(Drain{Duration: time.Minute})
		r.wait(30 * time.Second)
		if n := o.Left(); n < 297 || n > 303 || r.Draining() != o {
			t.Errorf("at half time %d of 600 are left", n)
		}
		r.do(func() { all[599].Touch() })
		r.await(o)
		if took := time.Since(begun); took < time.Minute-time.Second || took > time.Minute+r.late() {
			t.Errorf("it took %v", took)
		}
		for i, g := range append(all[1:600:600], all[0]) {
			want := time.Duration(i+1) * time.Minute / 600
			idle := 20 * time.Millisecond * time.Duration(600-i)
			if off := g.toldAt().Sub(begun.Add(want)).Abs(); off > idle/64*5+200*time.Millisecond { // 20 ms of idle time are 100 ms of the drain
				t.Errorf("guest %d was told %v off %v", g.n, off, want)
			}
			if len(g.drained) != 1 || g.err() == nil || g.err().Reason != ReasonDrain || g.at.Before(g.toldAt()) {
				t.Errorf("guest %d: told %d times, %v", g.n, len(g.drained), g.err())
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
		hooks := plainHooks()
		hooks.OnDrain = func(any) {
			mu.Lock()
			defer mu.Unlock()
			told[time.Since(begun)/time.Second]++
		}
		conns := make([]Conn, n)
		some := func(first, last int, f func(c *Conn)) {
			r.do(func() {
				for i := first; i < last; i++ {
					f(&conns[i])
				}
			})
		}
		r.do(func() {
			for i := range conns {
				track := r.Tracker.Track
				if i%4 == 0 {
					track = r.shard.Track
				}
				check(r, track(&conns[i], i, hooks))
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
			if g.err() != nil && g.at.Sub(begun) < 5*time.Second {
				t.Errorf("%d: %v", g.n, g.err())
			}
		}
		r.wait(time.Until(begun.Add(10*time.Second + r.late())))
		if o.Left() != 1 {
			t.Errorf("%d are left after Duration", o.Left())
		}
		if r.shard == nil {
			r.addLoop()
		}
		last := r.guests(1)[0]
		r.wait(r.late())
		for _, g := range append(late, last) {
			if g.err() == nil || g.err().Reason != ReasonDrain || len(g.drained) != 1 {
				t.Errorf("%d was told %d times: %v", g.n, len(g.drained), g.err())
			}
		}
		r.do(busy.AwaitRead)
		r.finishesIn(o, 100*time.Millisecond)
	})
}

// TestDrainIncludesThoseThatComeWhileItCounts takes many passes to count the connections. Others come meanwhile, and have their turns too.
func TestDrainIncludesThoseThatComeWhileItCounts(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, &Options{Shards: 1}, func(r *rig) {
		r.peers(10)
		r.goSlowly()
		o := r.mustDrain(Drain{})
		for range 5 {
			r.wait(r.opts.Tick)
			r.peers(1)
		}
		r.finishesIn(o, time.Second)
	})
}

// TestDrainWithinCallbacks drains, ends and visits in OnDrain.
func TestDrainWithinCallbacks(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		all := r.guests(5)
		once := sync.Once{}
		for _, g := range all {
			g.onDrain = func() { once.Do(func() { all[1].End("in OnDrain"); r.mustDrain(Drain{}) }) }
		}
		o := r.mustDrain(Drain{Duration: 5 * time.Second})
		r.finishesIn(o, 2*time.Second)
		if st := r.Stats(); st.Live != 0 || st.Drained+st.Shed != 5 || st.Causes["in OnDrain"] != st.Shed || r.Draining() != nil {
			t.Errorf("%+v", st)
		}
	})
}

// TestDrainEndsWithTheTracker: Done is closed by Close. No goroutine stays behind, as the end of the bubble shows.
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
		if g.err() != nil || len(g.drained) != 1 {
			t.Errorf("with an endless delay: %v, told %d times", g.err(), len(g.drained))
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

// TestOnDrainOnceAtATime has a connection be drained while OnDrain is running because
// of MaxAge.
func TestOnDrainOnceAtATime(t *testing.T) {
	onDriver(t, Policy{MaxAge: time.Second, MaxAgeGrace: time.Hour}, nil, func(r *rig) {
		g := &peer{}
		running, calls := atomic.Int32{}, atomic.Int32{}
		g.onDrain = func() {
			if calls.Add(1); running.Add(1) > 1 {
				t.Error("two OnDrains of a connection at once")
			}
			time.Sleep(10 * time.Second)
			running.Add(-1)
		}
		r.track(&g.Conn, g)
		r.wait(time.Second + r.late())
		if calls.Load() != 1 {
			r.Fatal("MaxAge has not passed")
		}
		o := r.mustDrain(Drain{})
		r.wait(8 * time.Second)
		if g.err() != nil {
			t.Errorf("ended while OnDrain was running: %v", g.err())
		}
		r.finishesIn(o, 5*time.Second)
	})
}

// TestDrainIsWithinTheBudget drains very many connections at once, or ends as many that are busy. Each end
// takes a while. No pass takes longer than it does when limits pass.
func TestDrainIsWithinTheBudget(t *testing.T) {
	const n, cost = 20_000, 50 * time.Microsecond
	for name, d := range map[string]Drain{"at once": {}, "forced": {ForceAfter: time.Second}} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, Policy{IdleTimeout: time.Hour, NoInterrupt: d.ForceAfter > 0}, &Options{Shards: 1}, func(r *rig) {
				conns, hooks := make([]Conn, n), &Hooks{Expire: func(any, *TimeoutError) { time.Sleep(cost) }}
				r.do(func() {
					for i := range conns {
						check(r, r.trackOf()(&conns[i], i, hooks))
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
				if least, spent := n*cost, st.PassTotal-was.PassTotal; spent < least || took > 8*least {
					r.Errorf("it took %v, passes %v; ends alone take %v", took, spent, least)
				}
			})
		})
	}
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
		busy, passing := r.phaseOf(Policy{NoInterrupt: true}), r.phaseOf(Policy{PhaseTimeout: 100 * time.Millisecond})
		r.do(func() {
			all[0].Stop() // before the drain
			all[1].Enter(busy)
			all[3].Enter(passing)
		})
		all[4].onDrain = func() { all[4].Stop() }
		o := r.mustDrain(Drain{Duration: time.Second, CloseDelay: 2 * time.Second, ForceAfter: 5 * time.Second})
		<-o.Done()
		lines(r, "gone=2 ended=3 forced=1 left=0 took="+(time.Since(o.begun)/time.Millisecond*time.Millisecond).String())

		r.guests(3)
		first := r.mustDrain(Drain{Duration: time.Hour})
		second := r.mustDrain(Drain{Duration: time.Hour})
		<-first.Done()
		lines(r, "gone=0 ended=0 forced=0 left=3 took=0s")
		if first.Cancel(); r.Draining() != second {
			r.Error("Cancel of a drain that was replaced has an effect")
		}
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

// TestDrainBesideABlockedLoop drains. What is on the shard of a blocked loop can't end, but
// all others do, at the rate that was asked for.
func TestDrainBesideABlockedLoop(t *testing.T) {
	for name, d := range map[string]Drain{"stop": {ForceAfter: time.Minute}, "over": {Duration: 10 * time.Minute}, "at once": {}} {
		t.Run(name, func(t *testing.T) {
			onStuck(t, Policy{IdleTimeout: 24 * time.Hour}, func(r *rig) {
				all := r.peers(100)
				o := r.mustDrain(d)
				r.wait(d.Duration/2 + 2*time.Second)
				if ended := 101 - o.Left(); d.Duration > 0 && (ended < 48 || ended > 52) || d.Duration == 0 && ended < 100 {
					r.Errorf("%d have ended at half time", ended)
				}
				r.wait(30 * time.Minute)
				for i, p := range all {
					if len(p.expired) != 1 || p.expired[0].Reason != ReasonDrain {
						r.Fatalf("%d of 100 on a healthy shard has not ended: %v", i, p.expired)
					}
				}
				if o.Left() != 1 || isClosed(o.done) {
					r.Errorf("%d are left", o.Left())
				}
				o.Cancel()
			})
		})
	}
}

// TestForceAfterBesideABlockedLoop has a handler block one of two loops while ForceAfter passes. All
// busy connections of both are ended when it goes on.
func TestForceAfterBesideABlockedLoop(t *testing.T) {
	inBubble(t, Policy{NoInterrupt: true, IdleTimeout: time.Hour}, nil, true, func(r *rig) {
		const each = 20_000
		hooks := &Hooks{Expire: func(any, *TimeoutError) { time.Sleep(50 * time.Microsecond) }} // it closes a socket
		blocked := newLoop()
		defer blocked.stop()
		other, err := r.NewShard(func(pass func()) error { blocked.post(pass); return nil })
		check(r, err)
		for s, l := range map[*Shard]*loop{r.shard: r.loop, other: blocked} {
			l.do(func() {
				for range each {
					check(r, s.Track(new(Conn), "owner", hooks))
				}
			})
		}
		o := r.mustDrain(Drain{ForceAfter: 2 * time.Second})
		r.wait(1900 * time.Millisecond)
		blocked.post(func() { time.Sleep(1300 * time.Millisecond) })
		r.await(o)
		if st := r.Stats(); st.Drained != 2*each || o.Left() > 0 {
			r.Errorf("%d are left, %+v", o.Left(), st)
		}
		blocked.do(func() { other.Close() })
	})
}
