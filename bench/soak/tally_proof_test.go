//go:build proof

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

func testTally() (*tally, *account) {
	t := newTally([]*target{{kind: kind{name: "test"}}})
	t.start(10 * time.Second)
	return t, t.servers["test"]
}

func TestTally(t *testing.T) {
	y, a := testTally()
	y.add("test", "silent", outcome{verdict: closed, reason: idle.ReasonIdle, late: 20 * ms, precise: true, at: y.begin.Add(2500 * ms)})
	y.add("test", "silent", outcome{verdict: closed, reason: idle.ReasonIdle, late: time.Hour, precise: true, at: y.begin.Add(-ms)}) // of the warm-up
	y.add("test", "active", outcome{verdict: left, unsure: true})
	y.add("test", "active", outcome{verdict: draw})
	y.add("test", "active", violation(idle.ReasonIdle, "closed %s", "early"))
	y.add("test", "active", violation(idle.ReasonIdle, "closed %s", "beside a stall").excused(limit, limit))
	if a.Stalled != 1 || a.Left != 1 || a.Closed["idle"] != 2 || a.Draws != 1 || a.Unsure != 1 || a.Faults != 1 || a.Lives["active"] != 4 {
		t.Errorf("%+v", a)
	}
	if got := y.windows[2].Most(); got != 20*ms || y.lateness.Count() != 1 {
		t.Errorf("late %v, counted %d", got, y.lateness.Count())
	}
	if y.violated != 1 || !strings.Contains(y.faults[0], "test, active: closed early (server: idle)") {
		t.Errorf("%d violated: %q", y.violated, y.faults)
	}
}

func TestReconcile(t *testing.T) {
	good := idle.Stats{Tracked: 10, Closed: 6, TimedOut: map[idle.Reason]uint64{idle.ReasonIdle: 4}}
	for _, c := range []struct {
		change func(*account, *idle.Stats)
		dials  uint64
		want   string
	}{
		{func(*account, *idle.Stats) {}, 10, ""},
		{func(_ *account, st *idle.Stats) { st.Live, st.Closed = 1, 5 }, 10, "1 connections are tracked"},
		{func(_ *account, st *idle.Stats) { st.Closed = 7 }, 10, "timed out are 11"},
		{func(*account, *idle.Stats) {}, 11, "11 were made"},
		{func(_ *account, st *idle.Stats) { st.Panics = 2 }, 10, "2 panics"},
		{func(a *account, _ *idle.Stats) { a.timeout[idle.ReasonIdle] = 3 }, 10, "4 timeouts for the reason idle, but 3"},
		{func(a *account, _ *idle.Stats) { a.timeout[idle.ReasonIdle], a.Draws = 3, 1 }, 10, ""},
		{func(a *account, _ *idle.Stats) { a.timeout[idle.ReasonIdle], a.Stalled = 3, 1 }, 10, ""},
		{func(a *account, _ *idle.Stats) { a.timeout[idle.ReasonRead], a.Unsure = 2, 1 }, 10, "0 timeouts for the reason read, but 2"},
	} {
		_, a := testTally()
		a.timeout[idle.ReasonIdle] = 4
		st := good
		c.change(a, &st)
		got := strings.Join(a.reconcile(c.dials, st), "; ")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
