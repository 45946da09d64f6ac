package idle

import (
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/batch"
	"github.com/idlewheel/idlewheel/idle/internal/callbacks"
)

// TestRecordBesideClose has ends recorded from a moment on at which a connection is being
// closed.
func TestRecordBesideClose(t *testing.T) {
	label := func(owner any) string { return fmt.Sprint(owner.(*guest).n) }
	onDriver(t, Policy{IdleTimeout: time.Hour}, &Options{Label: label, Logger: slog.New(slog.DiscardHandler)}, func(r *rig) {
		const n = 1000
		all := r.guests(n)
		r.wait(time.Minute)
		begun := make(chan struct{})
		go func() {
			<-begun
			r.RecentEnds()
		}()
		for i, g := range all {
			if i == n/4 {
				close(begun)
			}
			g.conn.Stop()
		}
		recent := r.RecentEnds()
		for i, e := range recent {
			if want := fmt.Sprint(n - 1 - i); e.Label != want || e.Age < time.Minute-2*r.opts.Tick {
				r.Fatalf("%d. of %d: %+v, want label %s", i, len(recent), e, want)
			}
		}
		if st := r.Stats(); st.Panics != 0 || st.Closed != n {
			r.Errorf("%d panics, %d closed", st.Panics, st.Closed)
		}
	})
}

// TestEndAfterReplace renames a phase, and ends a connection that the tracker has not
// looked at since, and closes another. Both are told to have ended in the phase as its name
// is now.
func TestEndAfterReplace(t *testing.T) {
	inBubble(t, Policy{Name: "old", IdleTimeout: time.Hour}, nil, true, func(r *rig) {
		all := r.guests(2)
		r.RecentEnds()
		goOn := make(chan struct{})
		r.loop.post(func() {
			<-goOn
			all[0].conn.End("test")
			all[1].conn.Stop()
		})
		if err := r.SetPolicy(Policy{Name: "new", IdleTimeout: time.Minute}); err != nil {
			r.Fatal(err)
		}
		close(goOn)
		r.wait(time.Second)
		recent := r.RecentEnds()
		if len(recent) != 2 || recent[0].Phase != "new" || recent[1].Phase != "new" || all[0].err.Phase != "new" {
			r.Errorf("%+v; %+v", recent, all[0].err)
		}
		if n := r.Stats().ByPhase["new"][ReasonShed]; n != 1 {
			r.Errorf("%d were ended in the phase", n)
		}
	})
}

// TestCloseWhileOnEndsBlocks closes a tracker whose OnEnds blocks. Close hands back all
// connections when its time is up, and all ends are told later.
func TestCloseWhileOnEndsBlocks(t *testing.T) {
	goOn, told := make(chan struct{}), 0
	onDriver(t, Policy{IdleTimeout: time.Hour}, &Options{OnEnds: func(ends []End) {
		<-goOn
		told += len(ends)
	}}, func(r *rig) {
		goOn, told = make(chan struct{}), 0
		all := r.guests(10)
		all[0].conn.Stop()
		r.wait(time.Second)
		begun := time.Now()
		live, err := r.Tracker.Close()
		if took := time.Since(begun); err == nil || len(live) != 9 || took != patience {
			r.Errorf("after %v: %d are handed back: %v", took, len(live), err)
		}
		close(goOn)
		r.wait(time.Second)
		if told != 10 {
			r.Errorf("%d of 10 are told", told)
		}
	})
}

// TestOnEndsCallsTheTracker visits connections, reads all that can be read and closes the tracker,
// all in OnEnds.
func TestOnEndsCallsTheTracker(t *testing.T) {
	var r *rig
	calls := 0
	onEnds := func(ends []End) {
		if calls++; calls > 1 {
			return
		}
		n := 0
		if err := r.Visit(r.Context(), func(Info) { n++ }); err != nil || n != 4 {
			r.Errorf("%d visited: %v", n, err)
		}
		if st := r.Stats(); len(r.RecentEnds()) != 1 || st.Closed != 1 {
			r.Errorf("%+v", r.Stats())
		}
		if live, err := r.Tracker.Close(); err == nil || len(live) != 4 { // it waits for this very call
			r.Errorf("%d are handed back: %v", len(live), err)
		}
	}
	onDriver(t, Policy{IdleTimeout: time.Hour}, &Options{OnEnds: onEnds}, func(rig *rig) {
		r, calls = rig, 0
		all := r.guests(5)
		all[0].conn.Stop()
		r.wait(10 * time.Second)
		if calls != 2 || r.Stats().Live != 0 {
			r.Errorf("%d calls: %+v", calls, r.Stats())
		}
	})
}

// TestRetireWithEnds retires a tracker, which ends with its last connection. OnEnds is told of that one too.
func TestRetireWithEnds(t *testing.T) {
	told := 0
	onBoth(t, Policy{IdleTimeout: time.Minute}, &Options{OnEnds: func(ends []End) { told += len(ends) }}, func(r *rig) {
		told = 0
		all := r.guests(2)
		r.CloseWhenEmpty()
		r.do(func() { all[0].conn.Stop() })
		r.wait(2 * time.Minute)
		if _, err := r.Tracker.Close(); err != ErrClosed || told != 2 {
			r.Errorf("%d of 2 are told: %v", told, err)
		}
		if err := r.Visit(r.Context(), func(Info) {}); err != ErrClosed {
			r.Error(err)
		}
	})
}

// TestAgeAfterClose closes a tracker, and the connections of a loop much later. Nobody
// advances the clock meanwhile.
func TestAgeAfterClose(t *testing.T) {
	inBubble(t, Policy{IdleTimeout: time.Hour}, nil, true, func(r *rig) {
		r.RecentEnds()
		all := r.guests(2)
		r.wait(time.Second)
		r.do(all[0].conn.Touch) // the clock runs
		if _, err := r.Tracker.Close(); err != nil {
			r.Error(err)
		}
		r.wait(time.Minute)
		r.do(func() { all[0].conn.Stop() })
		r.closeShard()
		for _, e := range r.RecentEnds() {
			if e.Age < time.Minute || e.Idle < time.Minute-2*r.opts.Tick {
				r.Errorf("%+v", e)
			}
		}
		if st := r.Stats(); st.Lifetime.Count() != 1 || st.Lifetime.SumMicros < 60e6 {
			r.Errorf("%v", st.Lifetime)
		}
	})
}

// TestRetireWhileOnEndsBlocks retires a tracker whose last connection times out. It is expired although OnEnds blocks.
func TestRetireWhileOnEndsBlocks(t *testing.T) {
	var goOn chan struct{}
	onDriver(t, Policy{IdleTimeout: time.Second}, &Options{OnEnds: func(ends []End) { <-goOn }}, func(r *rig) {
		goOn = make(chan struct{})
		p := r.peer()
		r.CloseWhenEmpty()
		r.wait(time.Minute)
		if len(p.expired) != 1 {
			r.Errorf("expired %d times", len(p.expired))
		}
		close(goOn)
	})
}

// TestStatsDoNotDecrease reads Stats while a loop's shard is being closed.
func TestStatsDoNotDecrease(t *testing.T) {
	var of *rig
	looks := 0
	label := func(any) string {
		if st := of.Stats(); st.Tracked != 6 || st.HandedBack == 0 || st.Live+st.HandedBack != 6 || st.Lifetime.Count() != 0 {
			t.Errorf("%+v", st)
		}
		looks++
		return ""
	}
	inBubble(t, Policy{IdleTimeout: time.Hour}, &Options{Label: label, OnEnds: func([]End) {}}, true, func(r *rig) {
		of = r
		r.guests(6)
		r.closeShard()
		if st := r.Stats(); st.Tracked != 6 || st.HandedBack != 6 || looks != 6 {
			r.Errorf("%d looks; %+v", looks, st)
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
				all[i].conn.Stop()
				all[i].conn.Stop()
				all[5+i].conn.Enter(chat)
				want[5+i] = ReasonIdle
				all[10+i].conn.End("by hand")
				want[10+i] = ReasonShed
			}
		})
		r.wait(11 * time.Second)
		r.endInVisit(func(i *Info) {
			if n := i.Owner.(*guest).n; 15 <= n && n < 20 {
				i.EndIfIdle("too many")
			}
		})
		r.do(func() {
			for _, g := range all[25:] {
				g.conn.Touch()
			}
		})
		r.mustHold(Capacity{MaxConns: 15, MinIdle: time.Second}) // 20 to 24
		r.wait(5 * time.Second)
		for i := range 10 {
			want[15+i] = ReasonShed
			if i >= 5 {
				want[15+i] = ReasonEvict
			}
		}
		r.do(func() { all[25].conn.Stop() })
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
		if st.Lifetime.Count() != 26 || st.HandedBack != 14 || st.Lateness.Count() != 5 || st.EndsLost != 0 {
			r.Errorf("%+v", st)
		}
		counts := map[Reason]uint64{ReasonIdle: 5, ReasonShed: 10, ReasonEvict: 5}
		for _, reason := range Reasons() {
			if n := st.ByPhase["first"][reason] + st.ByPhase["chat"][reason]; n != counts[reason] {
				r.Errorf("%d ended by %v", n, reason)
			}
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
		const n = batch.MostWaiting + 100
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
		if recent := r.RecentEnds(); len(recent) != batch.Kept {
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
		want := []string{"", "<b>\n\x00", "\xff", long[:mostLabel]}
		r.endInVisit(func(i *Info) {
			if w, label := want[slices.Index(all, i.Owner.(*named))], i.Label(); label != w {
				r.Errorf("%q, want %q", label, w)
			}
		})
		for _, n := range all {
			r.do(func() { n.conn.Stop() })
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
		r.guests(1)
		r.endInVisit(func(i *Info) {
			if label, want := i.Label(), map[bool]string{true: "/run/x"}[i.Owner == n]; label != want {
				r.Errorf("%q, want %q", label, want)
			}
		})
	})
}

func TestEndsAreLogged(t *testing.T) {
	var log strings.Builder
	opts := &Options{OnEnds: LogEnds(slog.New(slog.NewTextHandler(&log, nil)), slog.LevelInfo)}
	onDriver(t, Policy{Name: "chat", IdleTimeout: time.Second}, opts, func(r *rig) {
		log.Reset()
		for range 3 * callbacks.LoggedASecond {
			n := &named{name: "a b\n"}
			r.track(&n.conn, n)
		}
		r.wait(3 * time.Second)
		r.do(func() {
			n := &named{name: "later"}
			r.track(&n.conn, n)
			n.conn.Stop()
		})
		r.wait(time.Second)
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != callbacks.LoggedASecond+1 {
			r.Fatalf("%d lines", len(lines))
		}
		for _, want := range []string{"level=INFO", "reason=IdleTimeout", `label="a b\n"`, "phase=chat", "idle=1s"} {
			if !strings.Contains(lines[0], want) {
				r.Errorf("no %q in %s", want, lines[0])
			}
		}
		if last := lines[callbacks.LoggedASecond]; !strings.Contains(last, "reason=closed") || !strings.Contains(last, fmt.Sprintf("left_out=%d", 2*callbacks.LoggedASecond)) {
			r.Errorf("%s", last)
		}
	})
}
