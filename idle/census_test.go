package idle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func (r *rig) census(q Query) *Census {
	r.Helper()
	c, err := r.Census(r.Context(), q)
	if err != nil {
		r.Fatal(err)
	}
	return c
}

func (r *rig) page(c *Census, from, n int) []Info {
	r.Helper()
	page, err := c.Page(r.Context(), from, n)
	if err != nil {
		r.Fatal(err)
	}
	return page
}

// A forecaster is a peer that remembers when it ended, and answers no ping.
type forecaster struct {
	Conn
	endedAt time.Time
	err     *TimeoutError
}

func (f *forecaster) Ping() error              { return nil }
func (f *forecaster) OnDrain()                 {}
func (f *forecaster) Expire(err *TimeoutError) { f.endedAt, f.err = time.Now(), err }

// somePolicies set all limits, alone and together.
func somePolicies() []Policy {
	const s = time.Second
	return []Policy{
		{IdleTimeout: 3 * s},
		{ReadTimeout: 5 * s, Name: "read"},
		{WriteTimeout: 2 * s, IdleTimeout: 40 * s, Name: "write"},
		{MaxAge: 9 * s, MaxAgeJitter: 20 * s, MaxAgeGrace: 4 * s, Name: "age"},
		{Heartbeat: Heartbeat{Interval: 7 * s, Timeout: s, Misses: 3}, Name: "pings"},
		{Heartbeat: Heartbeat{Interval: 300 * time.Millisecond, Timeout: 400 * time.Millisecond, Misses: 20}, PhaseTimeout: 30 * s, Name: "often"},
		{Heartbeat: Heartbeat{Interval: 11 * s, Passive: true}, Name: "beats"},
		{ReadTotal: 6 * s, MinWriteRate: Rate{100, 3 * s}, Name: "rates"},
		{IdleTimeout: 90 * s, Heartbeat: Heartbeat{Interval: 20 * s, Timeout: 3 * s}, Name: "late"},
		{Name: "unlimited"},
	}
}

// TestForecast has connections in all kinds of states, takes a census, and leaves them
// alone. They end when the census has said, to the tick.
func TestForecast(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		r.Logf("seed %d", seed)
		rng := rand.New(rand.NewPCG(seed, 0))
		var phases []*Phase
		for _, p := range somePolicies() {
			phases = append(phases, r.phaseOf(p))
		}
		var all []*forecaster
		for range 2000 {
			f := &forecaster{}
			r.track(&f.Conn, f)
			all = append(all, f)
			r.do(func() { f.Enter(phases[rng.IntN(len(phases))]) })
		}
		for range 500 {
			f := all[rng.IntN(len(all))]
			r.do(func() {
				[]func(){f.Touch, f.TouchOut, f.Beat, f.PauseRead, f.AwaitRead, f.AwaitWrite, func() { f.Received(500) }}[rng.IntN(7)]()
			})
			r.wait(time.Duration(rng.IntN(12)) * time.Millisecond)
		}
		c := r.census(Query{Sort: NextToEnd})
		infos := r.page(c, 0, c.Len())
		asOf := time.Now()
		if c.Live != r.tracker().live() || len(infos) != c.Live {
			r.Fatalf("%d live, %d counted, %d described", r.tracker().live(), c.Live, len(infos))
		}
		r.wait(time.Until(c.At.Add(61 * time.Second)))
		for d := time.Duration(0); d <= time.Minute; d += r.opts.Tick {
			ended := 0
			for _, f := range all {
				if f.err != nil && f.endedAt.After(c.At) && !f.endedAt.After(c.At.Add(d)) {
					ended++
				}
			}
			if got := c.Ending(d); got != ended {
				for _, i := range infos {
					if f := i.Owner.(*forecaster); f.err == nil || f.endedAt.Sub(asOf) != i.EndsIn {
						r.Logf("after %v by %v: %+v", f.endedAt.Sub(asOf), f.err, i)
						break
					}
				}
				r.Fatalf("%d end within %v by the forecast; %d did", got, d, ended)
			}
		}
		if c.Ending(time.Minute) < 500 {
			r.Errorf("only %d have ended", c.Ending(time.Minute))
		}
		last := time.Duration(-1)
		for _, i := range infos {
			f := i.Owner.(*forecaster)
			if f.err == nil {
				if i.EndsBy != 0 && i.EndsIn < time.Minute {
					r.Errorf("%+v has not ended", i)
				}
				continue
			}
			if in := f.endedAt.Sub(asOf); i.EndsIn != in || i.EndsBy != f.err.Reason || in < last {
				r.Fatalf("ended after %v by %v; the forecast was %+v", in, f.err, i)
			}
			last = i.EndsIn
		}
	})
}

func (r *rig) tracker() *Tracker { return r.Tracker }

// TestCensusCounts takes a census of connections whose times are known.
func TestCensusCounts(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		chat := r.phaseOf(Policy{Name: "chat", IdleTimeout: time.Hour, Busy: true})
		var all []*guest
		for i := range 100 {
			g := &guest{n: i}
			r.track(&g.conn, g)
			all = append(all, g)
			if i%4 == 0 {
				r.do(func() { g.conn.Enter(chat) })
			}
			r.wait(100 * time.Millisecond)
		}
		r.do(func() { all[0].conn.Touch() }) // the oldest is the least idle
		c := r.census(Query{Sort: MostIdle})
		if c.Live != 100 || c.Phases[""].Live != 75 || c.Phases["chat"].Live != 25 || c.Phases["chat"].Phase != chat || c.Len() != 100 {
			r.Errorf("%+v", c)
		}
		if c.Idle.Count() != 100 || c.Age.Count() != 100 || c.Age.Sum < 490 || c.Age.Sum > 505 {
			r.Errorf("idle %v, age %v", c.Idle, c.Age)
		}
		for i, info := range r.page(c, 0, 3) {
			if g := info.Owner.(*guest); g.n != i+1 || info.Busy != (g.n%4 == 0) {
				r.Errorf("number %d of the most idle is %+v", i, info)
			}
		}
		if page := r.page(c, 99, 10); len(page) != 1 || page[0].Owner != all[0] || page[0].Phase != "chat" {
			r.Errorf("the last page: %+v", page)
		}
		if page := r.page(c, 100, 10); len(page) != 0 {
			r.Errorf("beyond the end: %+v", page)
		}
		c = r.census(Query{Sort: Oldest, Phases: []string{"chat", "nobody"}})
		if c.Len() != 25 || c.Live != 100 {
			r.Errorf("in chat: %d of %d", c.Len(), c.Live)
		}
		for i, info := range r.page(c, 0, 25) {
			if info.Owner != all[4*i] {
				r.Errorf("number %d of the oldest is %+v", i, info)
			}
		}
		// One that has ended since, and one whose Conn is used again.
		r.do(func() { all[0].conn.Close(); all[4].conn.Close() })
		r.track(&all[4].conn, all[4])
		page := r.page(c, 0, 3)
		if len(page) != 1 || page[0].Owner != all[8] {
			r.Errorf("after two have ended: %+v", page)
		}
		stale := Info{of: c.list[1]}
		stale.End("test")
		page[0].End("test")
		r.wait(time.Second)
		if all[4].err != nil || all[8].err == nil || all[8].err.Cause != "test" {
			r.Errorf("ended by hand: %v, %v", all[4].err, all[8].err)
		}
		if c := r.census(Query{}); c.Len() != 0 || c.Live != 98 {
			r.Errorf("unlisted: %+v", c)
		}
	})
}

func TestMostMisses(t *testing.T) {
	onBoth(t, Policy{Heartbeat: Heartbeat{Interval: time.Second, Timeout: 10 * time.Second, Misses: 5}}, nil, func(r *rig) {
		silent, quick := &forecaster{}, &forecaster{}
		r.track(&quick.Conn, quick)
		r.track(&silent.Conn, silent)
		for range 30 {
			r.wait(time.Second)
			r.do(quick.Touch)
		}
		page := r.page(r.census(Query{Sort: MostMisses}), 0, 2)
		if page[0].Owner != silent || page[0].Misses != 2 || page[1].Misses != 0 || page[0].Next != "miss" || page[1].Next != "ping" {
			r.Errorf("%+v", page)
		}
	})
}

func TestIdleAndAge(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		p := r.peer()
		r.wait(3 * time.Second)
		r.do(p.TouchOut)
		r.wait(2 * time.Second)
		r.do(func() {
			if d := p.Idle() - 2*time.Second; d > 0 || d < -2*r.opts.Tick {
				r.Errorf("idle for %v", p.Idle())
			}
			if d := p.Age() - 5*time.Second; d > 0 || d < -2*r.opts.Tick {
				r.Errorf("%v old", p.Age())
			}
		})
	})
}

func TestCensusOfNonsense(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		r.guests(3)
		if _, err := r.Census(r.Context(), Query{Sort: 77}); err == nil || !strings.Contains(err.Error(), "Query.Sort is 77") {
			r.Error(err)
		}
		c := r.census(Query{Sort: MostIdle})
		if _, err := c.Page(r.Context(), -1, 5); err == nil || !strings.Contains(err.Error(), "from -1") {
			r.Error(err)
		}
		r.Tracker.Close()
		if _, err := r.Census(r.Context(), Query{}); err != ErrClosed {
			r.Error(err)
		}
		if _, err := c.Page(r.Context(), 0, 1); err != ErrClosed {
			r.Error(err)
		}
	})
}

// TestCensusOfABlockedLoop gives up when its context is done, and the next census is
// complete.
func TestCensusOfABlockedLoop(t *testing.T) {
	inBubble(t, Policy{IdleTimeout: time.Hour}, nil, true, func(r *rig) {
		r.guests(5)
		c := r.census(Query{Sort: MostIdle})
		goOn := make(chan struct{})
		r.loop.post(func() { <-goOn })
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		if _, err := r.Census(ctx, Query{}); !errors.Is(err, context.DeadlineExceeded) {
			r.Error(err)
		}
		if _, err := c.Page(ctx, 0, 5); !errors.Is(err, context.DeadlineExceeded) {
			r.Error(err)
		}
		close(goOn)
		if c := r.census(Query{Sort: MostIdle}); c.Live != 5 || len(r.page(c, 0, 9)) != 5 {
			r.Errorf("%+v", c)
		}
	})
}

// TestEndsAreToldOnce ends connections in all ways, and counts what is told of them.
func TestEndsAreToldOnce(t *testing.T) {
	told := map[string]End{}
	opts := &Options{
		Label: func(owner any) string { return fmt.Sprint(owner.(*guest).n) },
		OnEnds: func(ends []End) {
			for _, e := range ends {
				if _, twice := told[e.Label]; twice {
					t.Errorf("told twice: %+v", e)
				}
				told[e.Label] = e
			}
		},
	}
	onBoth(t, Policy{Name: "first", IdleTimeout: time.Minute}, opts, func(r *rig) {
		clear(told)
		all := r.guests(40)
		chat := r.phaseOf(Policy{Name: "chat", IdleTimeout: 10 * time.Second})
		r.wait(2 * time.Second)
		want := map[int]Reason{}
		r.do(func() { // 0 to 4 are closed, 5 to 9 time out, 10 to 14 are ended by hand
			for i := range 5 {
				all[i].conn.Close()
				all[i].conn.Close()
				all[5+i].conn.Enter(chat)
				want[5+i] = ReasonIdle
				all[10+i].conn.End("by hand")
				want[10+i] = ReasonShed
			}
		})
		r.wait(11 * time.Second)
		shed, err := r.Shed(Shed{Most: 5, Cause: "too many"}) // 15 to 19
		if err != nil {
			r.Fatal(err)
		}
		<-shed.Done()
		r.MakeRoom(1)
		r.mustHold(Capacity{Most: 15}) // 20 to 24
		r.wait(5 * time.Second)
		for i := range 10 {
			want[15+i] = ReasonShed
			if i >= 5 {
				want[15+i] = ReasonEvict
			}
		}
		r.do(func() { all[25].conn.Close() })
		left := r.closeShard()
		live, err := r.Tracker.Close()
		if left = append(left, live...); err != nil || len(left) != 14 {
			r.Errorf("%d are handed back: %v", len(left), err)
		}
		synctest.Wait()
		time.Sleep(time.Second)
		synctest.Wait()
		if len(told) != 40 {
			r.Errorf("%d of 40 are told", len(told))
		}
		for i, g := range all {
			e := told[fmt.Sprint(i)]
			phase := "first"
			if 5 <= i && i < 10 {
				phase = "chat"
			}
			if e.Reason != want[i] || e.Phase != phase || e.Time.IsZero() || e.Age < e.Idle {
				r.Errorf("guest %d, %v: %+v", i, g.err, e)
			}
			if e.Reason == ReasonIdle && (e.Idle < 10*time.Second || e.Idle > 10*time.Second+r.late() || e.Late > r.late()) {
				r.Errorf("%+v", e)
			}
		}
		st := r.Stats()
		if n := st.ByPhase["first"]; n[ReasonShed] != 10 || n[ReasonEvict] != 5 || st.ByPhase["chat"][ReasonIdle] != 5 || len(n) != len(Reasons()) {
			r.Errorf("%v", st.ByPhase)
		}
		if st.Lifetime.Count() != 40 || st.Idle.Count() != 40 || st.Lateness.Count() != 5 || st.PassTime.Count() != st.Passes || st.EndsLost != 0 {
			r.Errorf("%+v", st)
		}
		recent := r.RecentEnds()
		if len(recent) != 40 || !slices.IsSortedFunc(recent, func(a, b End) int { return b.Time.Compare(a.Time) }) {
			r.Errorf("%d recent ends: %v", len(recent), recent)
		}
	})
}

// TestSlowConsumer ends connections while OnEnds blocks. No pass waits, and what does not
// fit is counted.
func TestSlowConsumer(t *testing.T) {
	goOn, told := make(chan struct{}), 0
	onDriver(t, Policy{IdleTimeout: time.Second}, &Options{OnEnds: func(ends []End) {
		<-goOn
		told += len(ends)
	}}, func(r *rig) {
		goOn, told = make(chan struct{}), 0
		r.track(&(&guest{}).conn, &guest{})
		r.wait(2 * time.Second)
		const n = mostWaiting + 100
		guests := make([]guest, n)
		for i := range guests {
			r.track(&guests[i].conn, &guests[i])
		}
		r.wait(5 * time.Second)
		if st := r.Stats(); st.TimedOut[ReasonIdle] != n+1 || st.EndsLost != 100 {
			r.Errorf("%d timed out, %d ends are lost", st.TimedOut[ReasonIdle], st.EndsLost)
		}
		close(goOn)
		r.wait(time.Second)
		if told != n+1-100 {
			r.Errorf("%d are told", told)
		}
		if recent := r.RecentEnds(); len(recent) != keptEnds {
			r.Errorf("%d are kept", len(recent))
		}
	})
}

// named is a guest with the name of its peer.
type named struct {
	guest
	name string
}

func (n *named) RemoteAddr() net.Addr { return &net.UnixAddr{Name: n.name} }

func TestHostileLabels(t *testing.T) {
	long := strings.Repeat("é", 100)
	opts := &Options{Logger: slog.New(slog.DiscardHandler), Label: func(owner any) string {
		switch n := owner.(*named); n.name {
		case "panics":
			panic("no name")
		default:
			return n.name
		}
	}}
	onBoth(t, Policy{IdleTimeout: time.Hour}, opts, func(r *rig) {
		r.RecentEnds()
		var all []*named
		for _, name := range []string{"panics", "<b>\n\x00", "\xff", long} {
			n := &named{name: name}
			r.track(&n.conn, n)
			all = append(all, n)
			r.wait(100 * time.Millisecond)
		}
		page := r.page(r.census(Query{Sort: Oldest}), 0, 10)
		want := []string{"", "<b>\n\x00", "\xff", long[:mostLabel]}
		for i, w := range want {
			if page[i].Label != w {
				r.Errorf("%q, want %q", page[i].Label, w)
			}
		}
		for _, n := range all {
			r.do(func() { n.conn.Close() })
		}
		for i, e := range r.RecentEnds() {
			if w := want[len(want)-1-i]; e.Label != w || e.Reason != 0 {
				r.Errorf("%+v, want %q", e, w)
			}
		}
		if st := r.Stats(); st.Panics != 2 {
			r.Errorf("%d panics", st.Panics)
		}
	})
}

func TestLabelIsTheAddressByDefault(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		n := &named{name: "/run/x"}
		r.track(&n.conn, n)
		r.wait(time.Second)
		r.guests(1)
		page := r.page(r.census(Query{Sort: Oldest}), 0, 10)
		if page[0].Label != "/run/x" || page[1].Label != "" {
			r.Errorf("%+v", page)
		}
	})
}

func TestEndsAreLogged(t *testing.T) {
	var log strings.Builder
	opts := &Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), LogEnds: slog.LevelInfo}
	onDriver(t, Policy{Name: "chat", IdleTimeout: time.Second}, opts, func(r *rig) {
		log.Reset()
		for range 3 * loggedASecond {
			n := &named{name: "a b\n"}
			r.track(&n.conn, n)
		}
		r.wait(3 * time.Second)
		r.do(func() {
			n := &named{name: "later"}
			r.track(&n.conn, n)
			n.conn.Close()
		})
		r.wait(time.Second)
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != loggedASecond+1 {
			r.Fatalf("%d lines", len(lines))
		}
		for _, want := range []string{"level=INFO", "reason=idle", `label="a b\n"`, "phase=chat", "idle=1s"} {
			if !strings.Contains(lines[0], want) {
				r.Errorf("no %q in %s", want, lines[0])
			}
		}
		if last := lines[loggedASecond]; !strings.Contains(last, "reason=closed") || !strings.Contains(last, fmt.Sprintf("left_out=%d", 2*loggedASecond)) {
			r.Errorf("%s", last)
		}
	})
}

func TestHistogram(t *testing.T) {
	var h Histogram
	for d, bucket := range map[time.Duration]int{
		0: 0, -5: 0, 1: 0, time.Microsecond: 1, time.Second: 20, time.Second + 1: 21, 2 * time.Second: 21, 500 * time.Millisecond: 19,
		1 << 62: NumBuckets - 1, 365 * 24 * time.Hour: NumBuckets - 1, 194 * 24 * time.Hour: NumBuckets - 2,
	} {
		if got := bucketOf(d); got != bucket {
			t.Errorf("%v is in bucket %d, want %d", d, got, bucket)
		}
		if bound := BucketBound(bucketOf(d)); d.Seconds() > bound || bucketOf(d) > 0 && d.Seconds() <= BucketBound(bucketOf(d)-1) {
			t.Errorf("%v is in the bucket to %v s", d, bound)
		}
	}
	if h.Quantile(0.5) != 0 {
		t.Error("an empty histogram has a median")
	}
	for i := range 100 {
		h.note(time.Duration(i+1) * time.Second)
	}
	if h.Count() != 100 || h.Sum != 5050 || h.Quantile(0.5) != 64 || h.Quantile(0) != 1 || h.Quantile(1) != 128 {
		t.Errorf("%d, %v, median %v, least %v, most %v", h.Count(), h.Sum, h.Quantile(0.5), h.Quantile(0), h.Quantile(1))
	}
}

// TestManyPhaseNames has more names of phases than are counted one by one.
func TestManyPhaseNames(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Second}, &Options{Shards: 2}, func(r *rig) {
		for i := range 2 * (mostPhases + 50) {
			g := &guest{}
			r.track(&g.conn, g)
			g.conn.Enter(r.phaseOf(Policy{Name: fmt.Sprint(i), IdleTimeout: time.Second}))
		}
		r.wait(3 * time.Second)
		st := r.Stats()
		if len(st.ByPhase) > mostPhases+1 || st.ByPhase[otherPhases][ReasonIdle] < 50 {
			r.Errorf("%d names, %d others", len(st.ByPhase), st.ByPhase[otherPhases][ReasonIdle])
		}
	})
}
