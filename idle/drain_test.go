package idle

import (
	"log/slog"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"
)

// A guest is a peer that keeps a diary of how it was ended.
type guest struct {
	conn    Conn
	n       int
	toldAt  time.Time
	endedAt time.Time
	err     *TimeoutError
	onDrain func()
}

func (g *guest) OnDrain() {
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

func (r *rig) mustDrain(d Drain) *Operation {
	r.Helper()
	o, err := r.Drain(d)
	if err != nil {
		r.Fatal(err)
	}
	return o
}

// TestDrainWaitsForBytesOnTheirWay has a peer that is still receiving what was written. A drain
// waits for it until ForceAfter, and an eviction doesn't.
func TestDrainWaitsForBytesOnTheirWay(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		sending := true
		first := r.prober(func() SocketState { return SocketState{Sending: sending} })
		stuck := r.prober(func() SocketState { return SocketState{Sending: true} })
		o := r.mustDrain(Drain{CloseDelay: time.Second, ForceAfter: time.Minute})
		r.wait(30 * time.Second)
		if !first.Live() || !stuck.Live() {
			r.Errorf("ended: %v, %v", first.expired, stuck.expired)
		}
		r.do(func() { sending = false })
		r.wait(time.Second)
		if first.Live() || !stuck.Live() {
			r.Errorf("live: %v, %v", first.Live(), stuck.Live())
		}
		r.wait(time.Minute)
		if p := o.Progress(); stuck.Live() || !p.Finished {
			r.Errorf("not forced: %+v", p)
		}
		third := r.prober(func() SocketState { return SocketState{Sending: true} })
		r.mustHold(Capacity{MinIdle: time.Second})
		r.wait(2 * time.Second)
		r.EvictIdle(1)
		r.wait(time.Second)
		if third.Live() {
			r.Error("not evicted")
		}
	})
}

func TestDrainEndsTheMostIdleFirstAtAnEvenRate(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		all := r.guests(600)
		r.do(func() { all[0].conn.Touch() }) // the first one is now the last one
		begun := time.Now()
		o := r.mustDrain(Drain{Duration: time.Minute})
		r.wait(30 * time.Second)
		if p := o.Progress(); p.Ended < 290 || p.Ended > 310 || p.Expected < 29*time.Second || p.Expected > 31*time.Second {
			t.Errorf("at half-time: %+v", p)
		}
		r.do(func() { all[599].conn.Touch() }) // and this one goes behind it
		<-o.Done()
		if took := time.Since(begun); took < time.Minute-100*time.Millisecond || took > time.Minute+100*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		order := append(append(append([]*guest{}, all[1:599]...), all[0]), all[599])
		for i, g := range order {
			want := time.Duration(i+1) * time.Minute / 600
			if at := g.toldAt.Sub(begun); at < want-200*time.Millisecond || at > want+100*time.Millisecond {
				t.Errorf("guest %d was told after %v, not %v", g.n, at, want)
			}
			if g.err == nil || g.err.Reason != ReasonDrain || g.endedAt.Before(g.toldAt) {
				t.Errorf("guest %d: %v", g.n, g.err)
			}
		}
		st := r.Stats()
		if st.Drained != 600 || st.Live != 0 || st.Tracked != 600 || len(st.TimedOut) > 0 {
			t.Errorf("%+v", st)
		}
		if p := o.Progress(); p != (Progress{Met: 600, Ended: 600, Elapsed: p.Elapsed, Finished: true}) {
			t.Errorf("%+v", p)
		}
	})
}

func TestDrainWaitsForTheBusy(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		all := r.guests(4)
		busy, err := r.Phase(Policy{Name: "request", NoInterrupt: true})
		if err != nil {
			t.Fatal(err)
		}
		r.do(func() {
			all[0].conn.Enter(busy)
			all[1].conn.PauseRead()
			all[2].conn.AwaitWrite()
		})
		o := r.mustDrain(Drain{})
		r.wait(time.Minute)
		if p := o.Progress(); p.InUse != 3 || p.Ended != 1 || p.Left != 3 {
			t.Errorf("%+v", p)
		}
		for _, g := range all {
			if g.toldAt.IsZero() {
				t.Errorf("guest %d was not told", g.n)
			}
		}
		for i, falls := range []func(){
			func() { all[0].conn.Enter(r.phase) },
			func() { all[1].conn.AwaitRead() },
			func() { all[2].conn.PauseWrite() },
		} {
			r.do(falls)
			r.wait(100 * time.Millisecond)
			if all[i].err == nil {
				t.Errorf("guest %d has fallen idle, and lives", i)
			}
		}
		<-o.Done()
	})
}

func TestDrainStopsTheRest(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour, NoInterrupt: true}, nil, func(r *rig) {
		all := r.guests(3)
		begun := time.Now()
		o := r.mustDrain(Drain{Duration: time.Second, ForceAfter: 5 * time.Second})
		<-o.Done()
		for _, g := range all {
			if d := g.endedAt.Sub(begun); d < 5*time.Second || d > 5100*time.Millisecond {
				t.Errorf("guest %d ended after %v", g.n, d)
			}
		}
	})
}

func TestDrainLeavesGrace(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		all := r.guests(2)
		all[0].onDrain = func() { all[0].conn.Stop() } // follows
		o := r.mustDrain(Drain{CloseDelay: 3 * time.Second})
		r.wait(2900 * time.Millisecond)
		if p := o.Progress(); p.Told == 0 || all[1].err != nil {
			t.Errorf("%+v, %v", p, all[1].err)
		}
		r.wait(0)
		<-o.Done()
		if d := all[1].endedAt.Sub(all[1].toldAt); d < 3*time.Second || d > 3100*time.Millisecond {
			t.Errorf("ended %v after it was told", d)
		}
		if st := r.Stats(); st.Drained != 1 || st.Closed != 1 {
			t.Errorf("%+v", st)
		}
	})
}

func TestDrainIncludesNewcomers(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		r.guests(10)
		o := r.mustDrain(Drain{Duration: 10 * time.Second})
		r.wait(5 * time.Second)
		late := r.guests(10)
		<-o.Done()
		if p := o.Progress(); p.Ended != 20 || p.Elapsed > 12*time.Second {
			t.Errorf("%+v", p)
		}
		for _, g := range late {
			if g.err == nil || g.err.Reason != ReasonDrain {
				t.Errorf("%d: %v", g.n, g.err)
			}
		}
	})
}

func TestDrainPausesAndIsCancelled(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		r.guests(100)
		o := r.mustDrain(Drain{Rate: 10})
		r.wait(2 * time.Second)
		o.Pause()
		r.wait(time.Minute)
		p := o.Progress()
		if p.Ended < 18 || p.Ended > 21 || !p.Paused || p.Elapsed > 3*time.Second {
			t.Errorf("paused: %+v", p)
		}
		o.Resume()
		r.wait(2 * time.Second)
		if p := o.Progress(); p.Ended < 38 || p.Ended > 41 || p.Paused {
			t.Errorf("resumed: %+v", p)
		}
		if _, err := r.Drain(Drain{}); err == nil || !strings.Contains(err.Error(), "another") {
			t.Errorf("drained twice: %v", err)
		}
		o.Cancel()
		<-o.Done()
		r.wait(time.Minute)
		p = o.Progress()
		if st := r.Stats(); int(st.Live) != 100-p.Ended || !p.Finished || p.Left != 100-p.Ended {
			t.Errorf("cancelled: %+v, %+v", p, st)
		}
		o = r.mustDrain(Drain{}) // those that the other one had met too
		<-o.Done()
		if st := r.Stats(); st.Live != 0 || st.Drained != 100 {
			t.Errorf("%+v", st)
		}
		o.Cancel()
		o.Pause()
	})
}

func TestCloseEndsDrain(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		r.guests(10)
		o := r.mustDrain(Drain{Duration: time.Hour})
		r.wait(time.Minute)
		r.Tracker.Close()
		<-o.Done()
		if _, err := r.Drain(Drain{}); err != ErrClosed {
			t.Errorf("Drain of a closed tracker: %v", err)
		}
		if _, err := r.Shed(Shed{}); err != ErrClosed {
			t.Errorf("Shed of a closed tracker: %v", err)
		}
	})
}

func TestShedChooses(t *testing.T) {
	tests := map[string]struct {
		shed Shed
		want func(r *rig, g *guest) bool
		n    int
	}{
		"all":        {Shed{}, func(*rig, *guest) bool { return true }, 100},
		"most":       {Shed{Max: 7}, func(_ *rig, g *guest) bool { return g.n < 7 }, 7},
		"share":      {Shed{Fraction: 0.25}, func(_ *rig, g *guest) bool { return g.n < 25 }, 25},
		"tiny share": {Shed{Fraction: 0.001}, func(*rig, *guest) bool { return false }, 0},
		"idle":       {Shed{Idle: time.Second}, func(_ *rig, g *guest) bool { return g.n <= 50 }, 51},
		"pick":       {Shed{Filter: func(o any) bool { return o.(*guest).n%10 == 3 }}, func(_ *rig, g *guest) bool { return g.n%10 == 3 }, 10},
		"panics":     {Shed{Filter: func(o any) bool { return 1/(o.(*guest).n-3) < 2 }}, func(_ *rig, g *guest) bool { return g.n != 3 && g.n != 4 }, 99},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			onBoth(t, Policy{IdleTimeout: time.Hour}, &Options{Logger: slog.New(slog.DiscardHandler)}, func(r *rig) {
				all := r.guests(100)
				test.shed.Cause = "test"
				o, err := r.Shed(test.shed)
				if err != nil {
					t.Fatal(err)
				}
				<-o.Done()
				n := 0
				for _, g := range all {
					if g.err == nil {
						continue
					}
					n++
					if !test.want(r, g) && name != "panics" || g.err.Reason != ReasonShed || g.err.Cause != "test" {
						t.Errorf("guest %d: %v", g.n, g.err)
					}
				}
				if st := r.Stats(); n < test.n-1 || n > test.n || st.Shed != uint64(n) || st.Causes["test"] != uint64(n) {
					t.Errorf("%d were shed, want %d; %+v", n, test.n, st)
				}
			})
		})
	}
}

func TestEndOneByHand(t *testing.T) {
	onBoth(t, Policy{Name: "chat", IdleTimeout: time.Hour, NoInterrupt: true}, nil, func(r *rig) {
		g := r.guests(1)[0]
		time.Sleep(3 * time.Second)
		waiting := 0
		r.do(func() {
			g.conn.End("banned")
			for range 100 {
				g.conn.End("once more")
			}
			if r.shard != nil { // on its loop, so no pass comes in between
				waiting = len(r.shard.mail.tasks)
			}
		})
		if waiting > 1 {
			t.Errorf("%d tasks wait for one connection", waiting)
		}
		r.wait(100 * time.Millisecond)
		if g.err == nil || g.err.Reason != ReasonShed || g.err.Cause != "banned" || !g.toldAt.IsZero() {
			t.Fatalf("%v", g.err)
		}
		if s := g.err.Error(); s != "i/o timeout: chat: ended by shed (banned), idle for "+g.err.Elapsed.String() || g.err.Elapsed < 3*time.Second || g.err.Elapsed > 4*time.Second {
			t.Error(s)
		}
		g.conn.End("dead")
		r.wait(time.Second)
		if st := r.Stats(); st.Shed != 1 || len(st.Causes) != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// TestForgottenUnits: a number without a unit is nanoseconds.
func TestForgottenUnits(t *testing.T) {
	hour := Policy{IdleTimeout: time.Hour}
	onDriver(t, hour, nil, func(r *rig) {
		drain := func(d Drain) error { _, err := r.Drain(d); return err }
		shed := func(s Shed) error { _, err := r.Shed(s); return err }
		opts := func(o Options) error {
			tr, err := New(hour, &o)
			if err == nil {
				tr.Close()
			}
			return err
		}
		for want, err := range map[string]error{
			"Drain.Duration is 30ns, shorter than 1ms; write it with a unit": drain(Drain{Duration: 30}),
			"Drain.CloseDelay is 30ns":                                       drain(Drain{CloseDelay: 30}),
			"Drain.ForceAfter is 1µs":                                        drain(Drain{ForceAfter: time.Microsecond}),
			"Shed.Duration is 30ns":                                          shed(Shed{Duration: 30}),
			"Shed.CloseDelay is 30ns":                                        shed(Shed{CloseDelay: 30}),
			"Shed.ForceAfter is 30ns":                                        shed(Shed{ForceAfter: 30}),
			"Shed.Idle is 30ns":                                              shed(Shed{Idle: 30}),
			"Shed.Age is 999.999µs":                                          shed(Shed{Age: time.Millisecond - 1}),
			"Capacity.MinIdle is 30ns":                                       r.SetCapacity(Capacity{MinIdle: 30}),
			"Options.ReapDelay is 5ns":                                       opts(Options{ReapDelay: 5}),
			"Options.Tick is 30ns":                                           opts(Options{Tick: 30}),
		} {
			if err == nil || !strings.HasPrefix(err.Error(), "idle: "+want) {
				t.Errorf("want %q; got %v", want, err)
			}
		}
		if n := len(r.Operations()); n > 0 {
			t.Errorf("%d operations have begun", n)
		}
	})
}

func TestNonsenseIsRefused(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		other, err := New(Policy{IdleTimeout: time.Hour}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		for want, d := range map[string]Drain{
			"Drain.Duration is -1s":   {Duration: -time.Second},
			"Drain.CloseDelay is -1s": {CloseDelay: -time.Second},
			"Drain.ForceAfter is -1s": {ForceAfter: -time.Second},
			"Drain.Rate is -1":        {Rate: -1},
			"Drain.ForceAfter is 5s, shorter than the Duration of 10s":   {Duration: 10 * time.Second, ForceAfter: 5 * time.Second},
			"Drain.ForceAfter is 5s, shorter than the CloseDelay of 10s": {CloseDelay: 10 * time.Second, ForceAfter: 5 * time.Second},
			"Drain.Rate is NaN":        {Rate: math.NaN()},
			"Drain.Rate is +Inf":       {Rate: math.Inf(1)},
			"Duration is 1s and Drain": {Duration: time.Second, Rate: 1},
		} {
			if _, err := r.Drain(d); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v", d, err)
			}
		}
		for want, s := range map[string]Shed{
			"Shed.Max is -1":                        {Max: -1},
			"Shed.ForceAfter is 1s, shorter than":   {Duration: time.Minute, ForceAfter: time.Second},
			"Shed.Fraction is 1.5":                  {Fraction: 1.5},
			"Shed.Fraction is NaN":                  {Fraction: math.NaN()},
			"Shed.Max is 1 and Shed.Fraction is 0.": {Max: 1, Fraction: 0.5},
			"Shed.Idle is -1s":                      {Idle: -time.Second},
			"Shed.Age is -1s":                       {Age: -time.Second},
			"Shed.Rate is -2":                       {Rate: -2},
			"another tracker":                       {Phase: other.phase},
		} {
			if _, err := r.Shed(s); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v", s, err)
			}
		}
	})
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
		if p := o.Progress(); p.Ended != n {
			b.Fatalf("%+v", p)
		}
		longest, busy = max(longest, st.Longest), busy+st.PassTotal-was.PassTotal
		b.StartTimer()
	}
	b.ReportMetric(float64(longest.Microseconds()), "longest-pass-µs")
	b.ReportMetric(float64(busy.Milliseconds())/float64(b.N), "busy-ms/op")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/n, "B/conn")
}

// TestShedBesideDrain cancels a Shed of connections that a Drain waits for. The Drain does not
// meet them once more.
func TestShedBesideDrain(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		busy := func() {
			p := r.peer()
			r.do(p.PauseRead)
		}
		busy()
		busy()
		drain, err := r.Drain(Drain{})
		if err != nil {
			r.Fatal(err)
		}
		shed, err := r.Shed(Shed{})
		if err != nil {
			r.Fatal(err)
		}
		r.wait(time.Second)
		shed.Cancel()
		busy()
		r.wait(3 * time.Second)
		if p := drain.Progress(); p.Met != 3 {
			r.Errorf("of 3 connections %d were met: %+v", p.Met, p)
		}
		drain.Cancel()
		r.wait(time.Second)
	})
}
