// Package bridge tests that OpenTelemetry gets the metrics of idleprom through its bridge, as the
// documentation of idleprom says. It has a folder of its own because it takes modules of its own.
package bridge

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	otelbridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/idlewheel/idlewheel/adapters/idleprom"
	"github.com/idlewheel/idlewheel/idle"
)

// TestBridge reads the metrics of a tracker of which two connections are live, two have timed out,
// and one was ended by hand, as OpenTelemetry gets them.
func TestBridge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker, err := idle.New(idle.Policy{Name: "brief", IdleTimeout: 20 * time.Millisecond}, nil)
		must(t, err)
		defer tracker.Close()
		lasting, err := tracker.Phase(idle.Policy{Name: "lasting", IdleTimeout: time.Hour})
		must(t, err)
		conns := make([]idle.Conn, 5)
		for i := range conns {
			must(t, tracker.Track(&conns[i], i, &idle.Hooks{Expire: func(any, *idle.TimeoutError) {}}))
			if i < 3 {
				conns[i].Enter(lasting)
			}
		}
		conns[0].End("tests")
		time.Sleep(time.Second)
		compare(t, tracker.Stats(), collect(t, tracker))
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// collect returns the metrics by name.
func collect(t *testing.T, tracker *idle.Tracker) map[string]metricdata.Aggregation {
	metrics, err := idleprom.New(map[string]*idle.Tracker{"test": tracker}, nil)
	must(t, err)
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics)
	reader := sdk.NewManualReader(sdk.WithProducer(otelbridge.NewMetricProducer(otelbridge.WithGatherer(registry))))
	defer sdk.NewMeterProvider(sdk.WithReader(reader)).Shutdown(t.Context())
	var got metricdata.ResourceMetrics
	must(t, reader.Collect(t.Context(), &got))
	all := map[string]metricdata.Aggregation{}
	for _, scope := range got.ScopeMetrics {
		for _, m := range scope.Metrics {
			all[m.Name] = m.Data
		}
	}
	return all
}

func compare(t *testing.T, st idle.Stats, all map[string]metricdata.Aggregation) {
	sum, ok := all["idlewheel_connections_ended_total"].(metricdata.Sum[float64])
	if !ok || !sum.IsMonotonic || sum.Temporality != metricdata.CumulativeTemporality || len(sum.DataPoints) != len(idle.Reasons()) {
		t.Fatalf("ends are %#v", all["idlewheel_connections_ended_total"])
	}
	for _, p := range sum.DataPoints {
		reason, _ := p.Attributes.Value("reason")
		want := map[string]uint64{"IdleTimeout": st.TimedOut[idle.ReasonIdle], "shed": st.Shed}[reason.AsString()]
		if tracker, _ := p.Attributes.Value("tracker"); p.Value != float64(want) || tracker.AsString() != "test" {
			t.Errorf("%v: %v; want %d", p.Attributes.Encoded(attribute.DefaultEncoder()), p.Value, want)
		}
	}

	gauge, ok := all["idlewheel_phase_connections"].(metricdata.Gauge[float64])
	if !ok {
		t.Fatalf("phases are %#v", all["idlewheel_phase_connections"])
	}
	for _, p := range gauge.DataPoints {
		phase, _ := p.Attributes.Value("phase")
		if want := map[string]float64{"lasting": 2}[phase.AsString()]; p.Value != want {
			t.Errorf("%v are in phase %s; want %v", p.Value, phase.AsString(), want)
		}
	}

	for name, want := range map[string]*idle.Histogram{
		"idlewheel_connection_lifetime_seconds": &st.Lifetime,
		"idlewheel_timeout_lateness_seconds":    &st.Lateness,
	} {
		h, ok := all[name].(metricdata.ExponentialHistogram[float64])
		if !ok || len(h.DataPoints) != 1 {
			t.Fatalf("%s is %#v", name, all[name])
		}
		p := h.DataPoints[0]
		if p.Count != want.Count() || p.Sum != float64(want.SumMicros)/1e6 || p.Scale != 0 || p.ZeroCount != want.Buckets[0] {
			t.Errorf("%s: %d that sum up to %v; want %d and %v", name, p.Count, p.Sum, want.Count(), want.SumMicros)
		}
		// The index i of scale 0 stands for more than 2 to the power of i, and at most twice as much.
		for i, n := range p.PositiveBucket.Counts {
			if bucket := int(p.PositiveBucket.Offset) + i + 21; want.Buckets[bucket] != n {
				t.Errorf("%s: %d in bucket %d; want %d", name, n, bucket, want.Buckets[bucket])
			}
		}
	}
}
