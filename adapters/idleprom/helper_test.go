package idleprom

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/idlewheel/idlewheel/idle"
)

// patience is for what does come, however busy the machine is.
const patience = 2 * time.Minute

// virtually runs a test in virtual time, with a tracker and its collector.
func virtually(t *testing.T, p idle.Policy, test func(t *testing.T, tr *idle.Tracker, c *Collector)) {
	synctest.Test(t, func(t *testing.T) {
		tr, c := newTracker(t, p, nil)
		test(t, tr, c)
	})
}

// newTracker returns a tracker that is closed when the test ends, and its collector.
func newTracker(t testing.TB, p idle.Policy, opts *idle.Options) (*idle.Tracker, *Collector) {
	t.Helper()
	tr, err := idle.New(p, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Close() })
	return tr, collectorOf(t, tr, nil)
}

// collectorOf returns a collector of a tracker, which it calls "test".
func collectorOf(t testing.TB, tr *idle.Tracker, opts *Options) *Collector {
	t.Helper()
	c, err := New(map[string]*idle.Tracker{"test": tr}, opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// hooks have no socket to close.
var hooks = &idle.Hooks{Expire: func(any, *idle.TimeoutError) {}}

// track tracks n connections, which await input, and returns them.
func track(t testing.TB, tr *idle.Tracker, n int) []*idle.Conn {
	t.Helper()
	all := make([]*idle.Conn, n)
	for i := range all {
		all[i] = new(idle.Conn)
		if err := tr.Track(all[i], all[i], hooks); err != nil {
			t.Fatal(err)
		}
		all[i].AwaitRead()
	}
	return all
}

// phase returns a phase of a tracker.
func phase(t testing.TB, tr *idle.Tracker, p idle.Policy) *idle.Phase {
	t.Helper()
	ph, err := tr.Phase(p)
	if err != nil {
		t.Fatal(err)
	}
	return ph
}

// A gathering is what a registry has gathered, by name and by labels as "a=b,c=d" without
// the tracker.
type gathering map[string]map[string]*dto.Metric

// gather gathers with all checks of a registry.
func gather(t testing.TB, c prometheus.Collector) gathering {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(c)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	g := gathering{}
	for _, f := range families {
		of := map[string]*dto.Metric{}
		for _, m := range f.Metric {
			labels := ""
			for _, l := range m.Label {
				if l.GetName() != "tracker" {
					labels += "," + l.GetName() + "=" + l.GetValue()
				}
			}
			of[labels[min(1, len(labels)):]] = m
		}
		g[f.GetName()] = of
	}
	return g
}

// value returns the value of a counter or gauge, which must be there.
func (g gathering) value(t testing.TB, name, labels string) float64 {
	t.Helper()
	m := g["idlewheel_"+name][labels]
	if m == nil {
		t.Fatalf("there is no idlewheel_%s{%s}; the labels are %q", name, labels, keys(g["idlewheel_"+name]))
	}
	return m.GetCounter().GetValue() + m.GetGauge().GetValue()
}

// lacks checks that there are no such metrics.
func (g gathering) lacks(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		if m := g["idlewheel_"+name]; m != nil {
			t.Errorf("there is an idlewheel_%s: %v", name, m)
		}
	}
}

// hasGrown checks that no count is less than before, or has gone.
func (g gathering) hasGrown(t testing.TB, before gathering) {
	t.Helper()
	for name, series := range before {
		for labels, m := range series {
			now := g[name][labels]
			if now.GetCounter().GetValue() < m.GetCounter().GetValue() || now.GetHistogram().GetSampleCount() < m.GetHistogram().GetSampleCount() {
				t.Errorf("%s{%s} was %v, and is %v", name, labels, m, now)
			}
		}
	}
}

// ofCensus are metrics that only a census has.
var ofCensus = []string{"phase_connections", "ending_connections", "unsent_bytes", "unsent_connections", "census_timestamp_seconds", "census_duration_seconds"}

// want checks values.
func (g gathering) want(t testing.TB, name, labels string, want float64) {
	t.Helper()
	if got := g.value(t, name, labels); got != want {
		t.Errorf("idlewheel_%s{%s} is %v, want %v", name, labels, got, want)
	}
}

// A collect is a collector that is not checked.
type collect func(chan<- prometheus.Metric)

func (collect) Describe(chan<- *prometheus.Desc)      {}
func (c collect) Collect(ch chan<- prometheus.Metric) { c(ch) }
