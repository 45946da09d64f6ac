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
		shed, err := r.Shed(Shed{Max: 5, Cause: "too many"}) // 15 to 19
		if err != nil {
			r.Fatal(err)
		}
		<-shed.Done()
		r.EvictIdle(1)
		r.mustHold(Capacity{MaxConns: 15}) // 20 to 24
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
		if st.Lifetime.Count() != 40 || st.Idle.Count() != 40 || st.Lateness.Count() != 5 || st.PassTime.Count() != st.Passes || st.EndsLost != 0 {
			r.Errorf("%+v", st)
		}
		counts := map[Reason]uint64{ReasonIdle: 5, ReasonShed: 10, ReasonEvict: 5}
		for _, reason := range Reasons() {
			if n, ok := st.ByReason()[reason]; n != counts[reason] || !ok {
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
		page := r.page(r.census(Query{Sort: Oldest}), 0, 10)
		want := []string{"", "<b>\n\x00", "\xff", long[:mostLabel]}
		for i, w := range want {
			if page[i].Label != w {
				r.Errorf("%q, want %q", page[i].Label, w)
			}
		}
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
		for _, want := range []string{"level=INFO", "reason=idle", `label="a b\n"`, "phase=chat", "idle=1s"} {
			if !strings.Contains(lines[0], want) {
				r.Errorf("no %q in %s", want, lines[0])
			}
		}
		if last := lines[callbacks.LoggedASecond]; !strings.Contains(last, "reason=closed") || !strings.Contains(last, fmt.Sprintf("left_out=%d", 2*callbacks.LoggedASecond)) {
			r.Errorf("%s", last)
		}
	})
}
