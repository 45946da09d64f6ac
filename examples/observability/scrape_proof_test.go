//go:build proof

package observability

import (
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"

	"github.com/idlewheel/idlewheel/idle"
)

// A metric is what a scrape has of a name.
type metric struct {
	labels map[string]bool // names
	series []sample
}

// A sample is a series at the time of a scrape. native is nil if it is not a native histogram.
type sample struct {
	labels labels.Labels
	value  float64
	native *histogram.Histogram
}

// scrape returns what Prometheus makes of a registry by its own parser, if it takes native
// histograms and classic ones.
func scrape(t *testing.T, registry *prometheus.Registry) map[string]*metric {
	t.Helper()
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer server.Close()
	req, err := http.NewRequestWithContext(t.Context(), "GET", server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	p, err := textparse.New(body, res.Header.Get("Content-Type"), labels.NewSymbolTable(), textparse.ParserOptions{KeepClassicOnClassicAndNativeHistograms: true})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*metric{}
	add := func(value float64, native *histogram.Histogram) {
		var ls labels.Labels
		p.Labels(&ls)
		m := all[ls.Get("__name__")]
		if m == nil {
			m = &metric{labels: map[string]bool{}}
			all[ls.Get("__name__")] = m
		}
		ls.Range(func(l labels.Label) { m.labels[l.Name] = true })
		m.series = append(m.series, sample{ls, value, native})
	}
	for {
		switch entry, err := p.Next(); {
		case errors.Is(err, io.EOF):
			return all
		case err != nil:
			t.Fatal(err)
		case entry == textparse.EntrySeries:
			_, _, v := p.Series()
			add(v, nil)
		case entry == textparse.EntryHistogram:
			_, _, h, _ := p.Histogram()
			if err := h.Validate(); err != nil {
				t.Error(err)
			}
			add(0, h)
		}
	}
}

// TestHistograms: Prometheus gets both forms, which agree with the tracker's.
func TestHistograms(t *testing.T) {
	registry, tracker := newRegistry(t)
	all, st := scrape(t, registry), tracker.Stats()
	for name, want := range map[string]*idle.Histogram{
		"idlewheel_connection_lifetime_seconds":    &st.Lifetime,
		"idlewheel_connection_idle_at_end_seconds": &st.Idle,
		"idlewheel_timeout_lateness_seconds":       &st.Lateness,
	} {
		if all[name] == nil || all[name+"_count"] == nil || all[name+"_sum"] == nil {
			t.Errorf("%s: not both forms are there", name)
			continue
		}
		h, count := all[name].series[0].native, all[name+"_count"].series[0].value
		if h.Count != want.Count() || h.Sum != float64(want.SumMicros)/1e6 || count != float64(want.Count()) || want.Count() == 0 {
			t.Errorf("%s: native %v, classic %v; want %d that sum up to %v", name, h, count, want.Count(), want.SumMicros)
		}
		for it := h.PositiveBucketIterator(); it.Next(); {
			b := it.At()
			for i, n := range want.Buckets {
				if i < idle.NumBuckets-1 && math.Ldexp(1, i-20) == b.Upper && n != b.Count {
					t.Errorf("%s: %v; want %d", name, b, n)
				}
			}
		}
	}
}
