package idle

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// isDone reports whether o has finished.
func (o *Operation) isDone() bool {
	select {
	case <-o.done:
		return true
	default:
		return false
	}
}

func (r *rig) mustShed(s Shed) *Operation {
	r.Helper()
	o, err := r.Shed(s)
	if err != nil {
		r.Fatal(err)
	}
	return o
}

// finishesIn asserts that o finishes within d.
func (r *rig) finishesIn(o *Operation, d time.Duration) {
	r.Helper()
	r.wait(d)
	if !o.isDone() {
		r.Fatalf("not done after %v: %+v, %+v", d, o.Progress(), r.Stats())
	}
}

func TestPauseAtOnce(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		r.guests(10)
		for _, begin := range []func() *Operation{
			func() *Operation { return r.mustShed(Shed{Max: 5}) },
			func() *Operation { return r.mustDrain(Drain{}) },
		} {
			before := r.Stats().Live
			o := begin()
			o.Pause()
			r.wait(time.Second)
			if p := o.Progress(); o.isDone() || !p.Paused || p.Ended > 0 || r.Stats().Live != before {
				r.Fatalf("paused: %+v", p)
			}
			o.Resume()
			r.finishesIn(o, time.Second)
			if p := o.Progress(); p.Ended != 5 {
				r.Errorf("%+v", p)
			}
		}
	})
}

// TestPausesDoNotCount pauses often, for less than a step at a time.
func TestPausesDoNotCount(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour, NoInterrupt: true}, nil, func(r *rig) {
		g := r.guests(1)[0]
		begun, paused := time.Now(), time.Duration(0)
		o := r.mustDrain(Drain{ForceAfter: time.Second})
		for range 50 {
			o.Pause()
			r.wait(7 * time.Millisecond)
			o.Resume()
			paused += 7 * time.Millisecond
			r.wait(time.Millisecond)
		}
		<-o.Done()
		if d := g.endedAt.Sub(begun) - paused; d < time.Second || d > 1100*time.Millisecond {
			r.Errorf("stopped after %v, without pauses", d)
		}
	})
}

// TestCancelBeforeTheWalk cancels operations whose walks wait for another one. When these
// walks come, they do nothing.
func TestCancelBeforeTheWalk(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		all := r.guests(20)
		slow := r.goSlowly()
		drain := r.mustDrain(Drain{Duration: time.Hour})
		picked := 0
		shed := r.mustShed(Shed{Filter: func(any) bool { picked++; return true }})
		r.wait(3 * r.opts.Tick)
		drain.Cancel()
		shed.Cancel()
		r.wait(2 * r.opts.Tick)
		if slow.ended() || !drain.isDone() || !shed.isDone() {
			r.Fatal("it is too late to cancel", slow.ended())
		}
		r.wait(time.Second)
		if picked > 0 {
			t.Errorf("Pick was called %d times by a cancelled Shed", picked)
		}
		o := r.mustDrain(Drain{})
		r.finishesIn(o, time.Second)
		if st := r.Stats(); st.Drained != uint64(len(all)) {
			t.Errorf("%+v", st)
		}
	})
}

func TestCancelWithinPick(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		r.guests(20)
		for s := range r.each {
			s.stride = 1
		}
		var o *Operation
		begun := make(chan struct{})
		picked := 0
		o = r.mustShed(Shed{Filter: func(any) bool {
			<-begun
			picked++
			o.Cancel()
			time.Sleep(3 * r.opts.Tick)
			return true
		}})
		close(begun)
		r.finishesIn(o, time.Second)
		if st := r.Stats(); st.Live != 20 || picked == 0 || picked > 2 {
			t.Errorf("picked %d: %+v", picked, st)
		}
	})
}

func TestOperationsWithinCallbacks(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		all := r.guests(5)
		var inner *Operation
		all[0].onDrain = func() {
			if _, err := r.Drain(Drain{}); err == nil {
				t.Error("drained twice")
			}
			all[1].conn.End("in OnDrain")
			inner = r.mustShed(Shed{Max: 2, Cause: "in OnDrain"})
		}
		o := r.mustDrain(Drain{Rate: 10})
		r.finishesIn(o, 2*time.Second)
		if st := r.Stats(); !inner.isDone() || st.Live != 0 || st.Drained+st.Shed != 5 || st.Causes["in OnDrain"] != st.Shed || st.Shed < 2 {
			t.Errorf("%+v", st)
		}
	})
}

func TestExtremes(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		for _, d := range []Drain{
			{}, {Rate: 1e300}, {Rate: 1e12}, {Duration: time.Millisecond}, {ForceAfter: time.Millisecond}, {Rate: 1e-300, ForceAfter: time.Second},
		} {
			for _, n := range []int{0, 1, 50} {
				r.guests(n)
				o := r.mustDrain(d)
				r.wait(500 * time.Millisecond)
				if p := o.Progress(); p.Expected < 0 {
					t.Errorf("%+v of %d: %+v", d, n, p)
				}
				r.finishesIn(o, time.Second)
				if p := o.Progress(); p.Ended != n {
					t.Errorf("%+v of %d: %+v", d, n, p)
				}
			}
		}
		g := r.guests(1)[0]
		o := r.mustDrain(Drain{CloseDelay: math.MaxInt64})
		r.wait(time.Minute)
		if g.err != nil || g.toldAt.IsZero() {
			t.Errorf("with an endless grace: %v, told at %v", g.err, g.toldAt)
		}
		o.Cancel()
		r.finishesIn(o, time.Second)
		o = r.mustDrain(Drain{Duration: math.MaxInt64})
		r.wait(time.Minute)
		if p := o.Progress(); p.Expected <= 0 || p.Left != 1 {
			t.Errorf("over an endless time: %+v", p)
		}
		o.Cancel()
	})
}

// TestGraceCountsFromOnDrain has OnDrain be called long after the order for it was given,
// at an odd time between two steps of the operation.
func TestGraceCountsFromOnDrain(t *testing.T) {
	inBubble(t, Policy{IdleTimeout: time.Hour}, nil, true, func(r *rig) {
		g := r.guests(1)[0]
		o := r.mustDrain(Drain{CloseDelay: 3 * time.Second, Rate: 10})
		r.wait(50 * time.Millisecond) // the walk is over
		r.loop.post(func() { time.Sleep(time.Second + 7777*time.Microsecond) })
		<-o.Done()
		if d := g.endedAt.Sub(g.toldAt); d < 3*time.Second || d > 3*time.Second+100*time.Millisecond {
			t.Errorf("ended %v after it was told", d)
		}
	})
}

// TestDoneWhenAllHaveGone has all leave as soon as they are told.
func TestDoneWhenAllHaveGone(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		for _, g := range r.guests(50) {
			g.onDrain = func() { g.conn.Stop() }
		}
		o := r.mustDrain(Drain{CloseDelay: time.Hour})
		r.finishesIn(o, 2*time.Second)
		if p := o.Progress(); p.Gone != 50 || p.Left != 0 {
			t.Errorf("%+v", p)
		}
		for _, g := range r.guests(50)[:49] {
			g.onDrain = func() { g.conn.Stop() }
		}
		o = r.mustDrain(Drain{CloseDelay: time.Hour})
		r.wait(2 * time.Second)
		if p := o.Progress(); p.Gone != 49 || p.Left != 1 || p.Told != 1 {
			t.Errorf("%+v", p)
		}
		o.Cancel()
	})
}

// TestProgressForgetsTheGone has half of the connections leave long before their turn.
// Newcomers are met although as many have gone.
func TestProgressForgetsTheGone(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		all := r.guests(100)
		o := r.mustDrain(Drain{Duration: time.Hour})
		r.wait(time.Second)
		r.do(func() {
			for _, g := range all[50:] {
				g.conn.Stop()
			}
		})
		r.wait(time.Second)
		if p := o.Progress(); p.Left != 50 || p.Gone != 50 || p.Met != 100 {
			t.Errorf("%+v", p)
		}
		r.guests(50)
		r.wait(2 * time.Second)
		if p := o.Progress(); p.Left != 100 || p.Met != 150 {
			t.Errorf("%+v", p)
		}
		o.Cancel()
	})
}

// TestShedForgetsTheActive has some be active before their turn. They are no longer
// among those to be ended, and have not ended otherwise.
func TestShedForgetsTheActive(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		all := r.guests(100)
		r.wait(time.Minute)
		o := r.mustShed(Shed{Idle: time.Minute, Rate: 10})
		r.wait(time.Second)
		ended := o.Progress().Ended
		r.do(func() {
			for _, g := range all[50:] {
				g.conn.Touch()
			}
		})
		r.finishesIn(o, 10*time.Second)
		if p := o.Progress(); p.Ended != 50 || p.Gone != 0 || p.Met != 50 || ended < 8 || ended > 10 {
			t.Errorf("%+v, and before: %d", p, ended)
		}
	})
}

// TestOnTimeoutHoldsUpNobody has OnTimeout of the most idle connection run for long. The
// turns of others come at the same rate.
func TestOnTimeoutHoldsUpNobody(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		short := r.phaseOf(Policy{IdleTimeout: time.Second})
		slow := &keeper{keep: func(*TimeoutError) bool { time.Sleep(time.Minute); return true }}
		r.track(&slow.Conn, slow)
		slow.Enter(short)
		r.wait(500 * time.Millisecond)
		all := r.guests(20)
		o := r.mustDrain(Drain{Rate: 5}) // the first turn comes when OnTimeout has been called
		r.wait(3 * time.Second)
		if len(slow.asked) != 1 {
			r.Fatalf("OnTimeout was called %d times", len(slow.asked))
		}
		r.wait(2 * time.Second)
		for i, g := range all {
			if g.err == nil {
				t.Errorf("guest %d is live", i)
			}
		}
		if p := o.Progress(); p.Left != 1 || p.Ended != 20 {
			t.Errorf("%+v", p)
		}
		r.finishesIn(o, time.Minute)
	})
}

// TestEndDuringOnTimeout ends a connection while OnTimeout is running, and within it, even
// if that says to keep the connection.
func TestEndDuringOnTimeout(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		within := &keeper{}
		within.keep = func(*TimeoutError) bool { within.End("within"); return true }
		r.track(&within.Conn, within)
		beside := &keeper{keep: func(*TimeoutError) bool { time.Sleep(100 * time.Millisecond); return true }}
		r.track(&beside.Conn, beside)
		r.wait(time.Second + r.late())
		beside.End("beside")
		r.wait(100*time.Millisecond + r.late())
		for _, k := range []*keeper{within, beside} {
			if len(k.asked) != 1 || len(k.expired) != 1 || k.expired[0].Reason != ReasonShed {
				t.Errorf("asked %v, expired %v", k.asked, k.expired)
			}
		}
		if st := r.Stats(); st.Shed != 2 || st.Live != 0 || st.Causes["within"] != 1 || st.Causes["beside"] != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// TestDrainOfARetiredTracker has the last end of a Drain close the tracker.
func TestDrainOfARetiredTracker(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		r.guests(50)
		r.Tracker.CloseWhenEmpty()
		o := r.mustDrain(Drain{})
		<-o.Done()
		if p := o.Progress(); p.Ended != 50 || p.Left != 0 {
			t.Errorf("%+v", p)
		}
	})
}

// TestIdleAfterAStall has a connection be active while the driver stands still, so that
// its stamp is old. It is not idle for the longer.
func TestIdleAfterAStall(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Hour}, &Options{Shards: 1}, func(r *rig) {
		p, quiet, stalls := r.peer(), r.peer(), &slowToExpire{took: time.Second}
		r.track(&stalls.Conn, stalls)
		r.wait(100 * time.Millisecond)
		p.Touch()
		r.wait(r.opts.Tick)
		stalls.End("") // Expire is called by the driver
		r.wait(900 * time.Millisecond)
		p.Touch()
		active := time.Now()
		r.wait(200 * time.Millisecond)
		o := r.mustShed(Shed{Idle: 500 * time.Millisecond})
		r.finishesIn(o, 100*time.Millisecond)
		if !p.Live() || quiet.Live() {
			r.Errorf("shed: %v, and the other one: %v", p.expired, quiet.expired)
		}
		p.End("")
		r.wait(r.late())
		if len(p.expired) != 1 || p.expired[0].Elapsed > time.Since(active) {
			r.Errorf("%v after it was active: %v", time.Since(active), p.expired)
		}
	})
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

// TestRaceTasksBesideOnTimeout has connections told and ended whose OnTimeout is running.
func TestRaceTasksBesideOnTimeout(t *testing.T) {
	tr, err := New(Policy{IdleTimeout: 2 * time.Millisecond}, &Options{Tick: time.Millisecond, Shards: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	var wg sync.WaitGroup
	var trackings atomic.Int64
	begun := time.Now()
	for range 8 {
		wg.Go(func() {
			for i := 0; time.Since(begun) < raceTime() || trackings.Load() < 10; i++ {
				var c Conn
				o, sh := &slowRacer{}, tr.own[i%2]
				if err := sh.Track(&c, o, hooksOf(o)); err != nil {
					t.Error(err)
					return
				}
				trackings.Add(1)
				forced := i%3 == 0
				for c.Live() {
					sh.do(func() { sh.invite(&c); sh.dismiss(&c, dismissal{reason: ReasonDrain, forced: forced}) })
					time.Sleep(50 * time.Microsecond)
				}
				for c.Ending() {
					runtime.Gosched()
				}
			}
		})
	}
	wg.Wait()
}

type slowRacer struct{ racer }

func (o *slowRacer) OnTimeout(*TimeoutError) bool {
	time.Sleep(2 * time.Millisecond)
	return false
}

// TestProgressAfterClose closes the tracker while a shard has tasks that it does only when it
// hands its connections back, as callbacks take long. The operation waits for the results.
func TestProgressAfterClose(t *testing.T) {
	const long = 300 * time.Millisecond // thrice that is less than ReapDelay
	passTakes := atomic.Int64{}
	onDriver(t, Policy{IdleTimeout: time.Hour}, &Options{Shards: 1, OnPass: func(time.Duration) { time.Sleep(time.Duration(passTakes.Load())) }}, func(r *rig) {
		all := r.guests(10)
		all[0].onDrain = func() { time.Sleep(3 * long) }
		r.mustShed(Shed{Max: 1})
		r.wait(5 * r.opts.Tick)
		passTakes.Store(int64(long)) // so the walk is followed by a pass only when the tracker is closed
		o := r.mustDrain(Drain{})
		r.wait(long / 2)
		passTakes.Store(0)
		if _, err := r.Tracker.Close(); err != nil {
			t.Fatal(err)
		}
		<-o.Done()
		if p := o.Progress(); p.Gone+p.Told != len(all) {
			t.Errorf("%+v", p)
		}
	})
}

// TestShedWaitsForOnTimeout begins a Shed while OnTimeout of a connection is running. When OnTimeout
// has kept the connection, it has its turn, unless that has made it too active for the Shed.
func TestShedWaitsForOnTimeout(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: 10 * time.Second}, nil, func(r *rig) {
		for _, least := range []time.Duration{0, time.Second} {
			k := r.keeper(func(*TimeoutError) bool { time.Sleep(5 * time.Second); return true })
			r.wait(10*time.Second + r.late())
			o := r.mustShed(Shed{Idle: least})
			r.wait(2 * time.Second)
			if p := o.Progress(); len(k.asked) != 1 || len(k.expired) != 0 || p.Left != 1 {
				r.Errorf("while OnTimeout runs: asked %v, expired %v, %+v", k.asked, k.expired, p)
			}
			r.finishesIn(o, 4*time.Second)
			if ends := least == 0; ends == k.Live() {
				r.Errorf("idle for %v: live %v", least, k.Live())
			}
			k.Stop()
		}
	})
}
