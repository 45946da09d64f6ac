package idle

import (
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/batch"
	"github.com/idlewheel/idlewheel/idle/internal/callbacks"
)

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
			all[0].End("test")
			all[1].Stop()
		})
		check(r, r.SetPolicy(Policy{Name: "new", IdleTimeout: time.Minute}))
		close(goOn)
		r.wait(time.Second)
		recent := r.RecentEnds()
		if len(recent) != 2 || recent[0].Phase != "new" || recent[1].Phase != "new" || all[0].err().Phase != "new" {
			r.Errorf("%+v; %+v", recent, all[0].err())
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
		all[0].Stop()
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
		all[0].Stop()
		r.wait(10 * time.Second)
		if calls != 2 || r.Stats().Live != 0 {
			r.Errorf("%d calls: %+v", calls, r.Stats())
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

// TestSlowConsumer ends connections while OnEnds blocks. No pass waits, and what does not
// fit is counted.
func TestSlowConsumer(t *testing.T) {
	goOn, told := make(chan struct{}), 0
	onDriver(t, Policy{IdleTimeout: time.Second}, &Options{OnEnds: func(ends []End) {
		<-goOn
		told += len(ends)
	}}, func(r *rig) {
		goOn, told = make(chan struct{}), 0
		r.peer()
		r.wait(2 * time.Second)
		const n = batch.MostWaiting + 100
		r.peers(n)
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

// named is a connection with the name of its peer.
type named struct {
	Conn
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
			r.track(&n.Conn, n)
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
			r.do(func() { n.Stop() })
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
		r.track(&n.Conn, n)
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
			r.track(&n.Conn, n)
		}
		r.wait(3 * time.Second)
		r.do(func() {
			n := &named{name: "later"}
			r.track(&n.Conn, n)
			n.Stop()
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

// TestAgeAfterClose closes a tracker, and the connection of a loop much later. Nobody advances the clock meanwhile.
func TestAgeAfterClose(t *testing.T) {
	inBubble(t, Policy{IdleTimeout: time.Hour}, nil, true, func(r *rig) {
		r.RecentEnds()
		p := r.peer()
		r.do(p.Touch) // the clock runs
		r.Tracker.Close()
		r.wait(time.Minute)
		r.do(func() { p.Stop() })
		if e := r.RecentEnds()[0]; e.Age < time.Minute-2*r.opts.Tick {
			r.Errorf("%+v", e)
		}
	})
}
