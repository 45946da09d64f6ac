package idle

import (
	"fmt"
	"testing"
	"time"
)

func TestHistogram(t *testing.T) {
	var h Histogram
	for d, bucket := range map[time.Duration]int{
		0: 0, -5: 0, 1: 0, time.Microsecond: 1, time.Second: 20, time.Second + 1: 21, 2 * time.Second: 21, 500 * time.Millisecond: 19,
		1 << 62: NumBuckets - 1, 365 * 24 * time.Hour: NumBuckets - 1, 194 * 24 * time.Hour: NumBuckets - 2,
	} {
		if got := bucketOf(d); got != bucket {
			t.Errorf("%v is in bucket %d, want %d", d, got, bucket)
		}
		if bound := BucketBound(bucketOf(d)); d > bound || bucketOf(d) > 0 && d <= BucketBound(bucketOf(d)-1) {
			t.Errorf("%v is in the bucket to %v", d, bound)
		}
	}
	if h.Quantile(0.5) != 0 {
		t.Error("an empty histogram has a median")
	}
	for i := range 100 {
		h.note(time.Duration(i+1) * time.Second)
	}
	if h.Count() != 100 || h.SumMicros != 5050e6 || h.Quantile(0.5) != 64*time.Second || h.Quantile(0) != time.Second || h.Quantile(1) != 128*time.Second {
		t.Errorf("%d, %v, median %v, least %v, most %v", h.Count(), h.SumMicros, h.Quantile(0.5), h.Quantile(0), h.Quantile(1))
	}
}

// TestSumInAnyOrder adds up shards in another order, as when one of them is closed. A sum that
// becomes less is a counter reset to Prometheus.
func TestSumInAnyOrder(t *testing.T) {
	var shards [3]tally
	for i := range shards {
		shards[i].note(time.Duration(i+1) * 100 * time.Millisecond)
	}
	var before, after Histogram
	for i := range shards {
		shards[i].addTo(&before)
		shards[2-i].addTo(&after)
	}
	if before != after || before.SumMicros != 600_000 {
		t.Errorf("%v and %v", before.SumMicros, after.SumMicros)
	}
}

// TestManyPhaseNames has more names of phases than are counted one by one.
func TestManyPhaseNames(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Second}, &Options{Shards: 2}, func(r *rig) {
		for i := range 2 * (mostNames + 50) {
			g := &guest{}
			r.track(&g.conn, g)
			g.conn.Enter(r.phaseOf(Policy{Name: fmt.Sprint(i), IdleTimeout: time.Second}))
		}
		r.wait(3 * time.Second)
		st := r.Stats()
		if len(st.ByPhase) > mostNames+1 || st.ByPhase[otherNames][ReasonIdle] < 50 {
			r.Errorf("%d names, %d others", len(st.ByPhase), st.ByPhase[otherNames][ReasonIdle])
		}
	})
}
