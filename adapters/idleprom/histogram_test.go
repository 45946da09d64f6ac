package idleprom

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/idlewheel/idlewheel/idle"
)

// TestHistogram compares both forms with the original.
func TestHistogram(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 100 {
		var h idle.Histogram
		for n := rng.IntN(20) * min(round, 1); n > 0; n-- {
			h.Buckets[rng.IntN(idle.NumBuckets)] += uint64(rng.IntN(1000))
		}
		h.SumMicros = rng.Uint64N(1e9)
		for _, b := range []bounds{span, delay} {
			got := gather(t, collect(func(ch chan<- prometheus.Metric) {
				descs := describe("test")
				output{&descs, ch}.putHistogram(lifetime, &h, b)
			}))["idlewheel_connection_lifetime_seconds"][""].GetHistogram()
			if got.GetSampleCount() != h.Count() || got.GetSampleSum() != float64(h.SumMicros)/1e6 {
				t.Fatalf("%d that sum up to %v; want %d and %v", got.GetSampleCount(), got.GetSampleSum(), h.Count(), h.SumMicros)
			}
			checkClassic(t, got, &h, b)
			checkNative(t, got, &h)
		}
	}
}

func checkClassic(t *testing.T, got *dto.Histogram, h *idle.Histogram, b bounds) {
	t.Helper()
	if want := (b.last-b.first)/b.step + 1; len(got.Bucket) != want {
		t.Fatalf("%d classic buckets; want %d", len(got.Bucket), want)
	}
	for i, bucket := range got.Bucket {
		if want := math.Ldexp(1, b.first+i*b.step); bucket.GetUpperBound() != want {
			t.Fatalf("bound %d is %v; want %v", i, bucket.GetUpperBound(), want)
		}
		below := uint64(0)
		for j, n := range h.Buckets {
			if j < idle.NumBuckets-1 && idle.BucketBound(j).Seconds() <= bucket.GetUpperBound() {
				below += n
			}
		}
		if bucket.GetCumulativeCount() != below {
			t.Fatalf("%d are at most %v; want %d", bucket.GetCumulativeCount(), bucket.GetUpperBound(), below)
		}
	}
}

func checkNative(t *testing.T, got *dto.Histogram, h *idle.Histogram) {
	t.Helper()
	if got.GetSchema() != 0 || got.GetZeroThreshold() != math.Ldexp(1, zeroPower) || got.GetZeroCount() != h.Buckets[0] {
		t.Fatalf("schema %d, %d at most %v; want %d", got.GetSchema(), got.GetZeroCount(), got.GetZeroThreshold(), h.Buckets[0])
	}
	// As Prometheus has it: the bucket with index i of schema 0 ends at 2 to the power of i.
	native := map[float64]uint64{}
	index, count, deltas := 0, int64(0), got.PositiveDelta
	for _, span := range got.PositiveSpan {
		index += int(span.GetOffset())
		for range span.GetLength() {
			count += deltas[0]
			deltas = deltas[1:]
			native[math.Ldexp(1, index)] = uint64(count)
			index++
		}
	}
	if len(deltas) > 0 {
		t.Fatalf("%d deltas are left", len(deltas))
	}
	for i, n := range h.Buckets[1:] {
		bound := math.Ldexp(1, zeroPower+i+1)
		if native[bound] != n {
			t.Fatalf("the native bucket up to %v has %d; want %d", bound, native[bound], n)
		}
	}
}
