package idleprom

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/idlewheel/idlewheel/idle"
)

// TestCounts gives each field of Stats another value, and looks for it.
func TestCounts(t *testing.T) {
	var st idle.Stats
	fields := reflect.ValueOf(&st).Elem()
	for i := range fields.NumField() {
		if f := fields.Field(i); f.Kind() == reflect.Uint64 {
			f.SetUint(uint64(i) + 1)
		}
	}
	st.PassTotal, st.Longest, st.BacklogAge = 1500*time.Millisecond, 250*time.Millisecond, 125*time.Millisecond
	for i, h := range []*idle.Histogram{&st.Lifetime, &st.Lateness} {
		h.Buckets[30], h.SumMicros = uint64(i)+1, uint64(i)*1e6+500_000
	}
	g := gather(t, collect(func(ch chan<- prometheus.Metric) {
		descs := describe("test")
		putCounts(output{&descs, ch}, &st)
	}))
	for name, want := range map[string]float64{
		"connections": float64(st.Live), "connections_tracked_total": float64(st.Tracked), "connections_closed_total": float64(st.Closed),
		"connections_refused_total": float64(st.Refused),
		"pings_total":               float64(st.Pings), "pings_missed_total": float64(st.Misses),
		"timeouts_extended_total": float64(st.Extended), "timeouts_deferred_total": float64(st.Deferred),
		"callback_panics_total": float64(st.Panics), "checks_total": float64(st.Checks), "early_reschedules_total": float64(st.EarlyReschedules),
		"end_reports_lost_total": float64(st.EndsLost), "pass_seconds_total": 1.5, "pass_longest_seconds": 0.25, "backlog_age_seconds": 0.125,
	} {
		g.want(t, name, "", want)
	}
	for i, name := range []string{"connection_lifetime_seconds", "timeout_lateness_seconds"} {
		h := g["idlewheel_"+name][""].GetHistogram()
		if h.GetSampleCount() != uint64(i)+1 || h.GetSampleSum() != float64(i)+0.5 {
			t.Errorf("%s has %d that sum up to %v", name, h.GetSampleCount(), h.GetSampleSum())
		}
	}
}

// TestEnds has connections end in several ways, and compares with Stats.
func TestEnds(t *testing.T) {
	virtually(t, idle.Policy{Name: "first", IdleTimeout: time.Second}, func(t *testing.T, tr *idle.Tracker, c *Collector) {
		old := phase(t, tr, idle.Policy{Name: "old", MaxAge: time.Second})
		track(t, tr, 3)
		for _, c := range track(t, tr, 2) {
			c.Enter(old)
		}
		time.Sleep(2 * time.Second)
		for _, c := range track(t, tr, 4) {
			c.Stop()
		}
		all := track(t, tr, 10)
		all[0].End("one")
		all[1].End("one")
		all[2].End("")
		time.Sleep(100 * time.Millisecond)
		if _, err := tr.Drain(idle.Drain{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)

		st, g := tr.Stats(), gather(t, c)
		g.want(t, "connections", "", 0)
		g.want(t, "connections_tracked_total", "", 19)
		g.want(t, "connections_closed_total", "", 4)
		want := map[idle.Reason]float64{idle.ReasonIdle: 3, idle.ReasonMaxAge: 2, idle.ReasonShed: 3, idle.ReasonDrain: 7}
		for _, r := range idle.Reasons() {
			reason := cmp.Or(tr.Setting("", r), r.String())
			g.want(t, "connections_ended_total", "reason="+reason, want[r])
			for name, reasons := range st.ByPhase {
				g.want(t, "phase_connections_ended_total", "phase="+name+",reason="+reason, float64(reasons[r]))
			}
		}
		g.want(t, "connections_shed_total", "cause=one", 2)
		if causes := g["idlewheel_connections_shed_total"]; len(causes) != len(st.Causes) {
			t.Errorf("causes are %q, and Stats has %v", keys(causes), st.Causes)
		}
		if h := g["idlewheel_connection_lifetime_seconds"][""].GetHistogram(); h.GetSampleCount() != st.Lifetime.Count() || h.GetSampleSum() != float64(st.Lifetime.SumMicros)/1e6 {
			t.Errorf("lifetimes are %v, and Stats has %v", h, st.Lifetime)
		}
	})
}

// TestOneName: a limit has the name that was set, whatever field of Policy an adapter makes of it.
func TestOneName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		setting := func(phase string, r idle.Reason) string {
			return map[string]string{"header phase": "HeaderTimeout", "body read": "BodyTimeout"}[phase+" "+r.String()]
		}
		tr, err := idle.NewPhased(nil, setting)
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		c := collectorOf(t, tr, nil)
		for i, p := range []idle.Policy{{Name: "header", PhaseTimeout: time.Second}, {Name: "body", ReadTimeout: time.Second}, {Name: "body", PhaseTimeout: time.Second}} {
			for _, c := range track(t, tr, i+1) {
				c.Enter(phase(t, tr, p))
			}
		}
		time.Sleep(2 * time.Second)
		g := gather(t, c)
		for reason, want := range map[string]float64{"HeaderTimeout": 1, "BodyTimeout": 2, "PhaseTimeout": 3, "IdleTimeout": 0, "ReadTimeout": 0, "drain": 0} {
			g.want(t, "connections_ended_total", "reason="+reason, want)
		}
		g.want(t, "phase_connections_ended_total", "phase=header,reason=HeaderTimeout", 1)
		g.want(t, "phase_connections_ended_total", "phase=body,reason=BodyTimeout", 2)
		g.want(t, "phase_connections_ended_total", "phase=body,reason=PhaseTimeout", 3)
		if of := g["idlewheel_connections_ended_total"]; of["reason=phase"] != nil || of["reason=read"] != nil {
			t.Errorf("a limit has another name: %q", keys(of))
		}
	})
}

// TestCapacityAndDrain looks at metrics that are absent or 0 without a capacity or a drain.
func TestCapacityAndDrain(t *testing.T) {
	virtually(t, idle.Policy{IdleTimeout: time.Minute}, func(t *testing.T, tr *idle.Tracker, c *Collector) {
		track(t, tr, 20)
		check := func(left int) {
			t.Helper()
			g := gather(t, c)
			g.lacks(t, "connections_max")
			g.want(t, "draining_connections", "", float64(left))
		}
		check(0)
		d, err := tr.Drain(idle.Drain{Duration: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if left := d.Left(); left < 5 || left > 15 {
			t.Errorf("%d of 20 are left after half of the time", left)
		}
		check(d.Left())
		d.Cancel()
		check(0)
		for _, most := range []int{3, 0} {
			if err := tr.SetCapacity(idle.Capacity{MaxConns: most, MinIdle: time.Hour}); err != nil {
				t.Fatal(err)
			}
			if most > 0 {
				gather(t, c).want(t, "connections_max", "", 3)
			}
		}
		check(0)
	})
}

// newSource returns the source of a tracker without connections.
func newSource(t *testing.T) *source {
	_, c := newTracker(t, idle.Policy{IdleTimeout: time.Minute}, nil)
	return c.sources[0]
}

// ends gathers what s writes of the ends in st.
func (s *source) ends(t *testing.T, st idle.Stats) gathering {
	t.Helper()
	return gather(t, collect(func(ch chan<- prometheus.Metric) {
		s.phases.admit(keys(st.ByPhase))
		s.putEnds(output{&s.descs, ch}, &st)
	}))
}

func TestHostileNames(t *testing.T) {
	end := func(n uint64) map[idle.Reason]uint64 {
		return map[idle.Reason]uint64{idle.ReasonIdle: n, idle.ReasonDrain: 0}
	}
	long := strings.Repeat("é", 100) // 200 bytes
	g := newSource(t).ends(t, idle.Stats{
		ByPhase: map[string]map[idle.Reason]uint64{
			"": end(1), "a\n\"b\"\\": end(2), "bad\xff": end(3), "bad\xfe": end(4), long: end(5), long + "more": end(6), "(others)": end(7),
		},
		Causes: map[string]uint64{"<script>": 1, "\x00\xff": 2},
	})
	for label, n := range map[string]float64{"(unnamed)": 1, "a\n\"b\"\\": 2, "bad\uFFFD": 7, strings.Repeat("é", 64): 11, "(others)": 7} {
		g.want(t, "phase_connections_ended_total", "phase="+label+",reason=IdleTimeout", n)
		g.want(t, "phase_connections_ended_total", "phase="+label+",reason=drain", 0)
	}
	g.want(t, "connections_shed_total", "cause=<script>", 1)
	g.want(t, "connections_shed_total", "cause=\x00\uFFFD", 2)
}

// TestFullNames: there are no others as long as all names have their labels.
func TestFullNames(t *testing.T) {
	n := names{most: 2}
	for range 2 {
		n.admit([]string{"a", "b"})
		if got := n.all(); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("labels are %q", got)
		}
	}
	n.admit([]string{"c"})
	if a, c := n.label("a"), n.label("c"); a != "a" || c != others {
		t.Errorf("a is %q, and c is %q", a, c)
	}
}

// TestManyNames: series are bounded, none is lost, and none that was there goes away.
func TestManyNames(t *testing.T) {
	s := newSource(t)
	var before gathering
	for round := range 3 {
		st := idle.Stats{ByPhase: map[string]map[idle.Reason]uint64{}, Causes: map[string]uint64{}}
		for i := range 80 * (round + 1) {
			name := fmt.Sprintf("%03d", 1000-i) // newer ones come first in the alphabet
			st.ByPhase[name] = map[idle.Reason]uint64{idle.ReasonIdle: 1}
			st.Causes[name] = 1
		}
		g := s.ends(t, st)
		phases, causes := g["idlewheel_phase_connections_ended_total"], g["idlewheel_connections_shed_total"]
		if len(phases) > 101*len(idle.Reasons()) || len(causes) > 51 {
			t.Errorf("%d and %d series", len(phases), len(causes))
		}
		sum := 0.0
		for _, m := range causes {
			sum += m.GetCounter().GetValue()
		}
		if sum != float64(len(st.Causes)) {
			t.Errorf("%v of %d are counted", sum, len(st.Causes))
		}
		g.hasGrown(t, before)
		before = g
	}
}
