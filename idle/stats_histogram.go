package idle

import (
	"math"
	"math/bits"
	"time"
)

// NumBuckets is the number of buckets of a [Histogram].
const NumBuckets = 46

// leastBound is the upper bound of the first bucket: 2 to this power of a second, or
// 0.95 µs. That of the last but one is 2²⁴ s, or 194 days.
const leastBound = -20

// A Histogram counts durations in buckets whose bounds are the powers of 2 of a second.
// They are those of Prometheus's native histograms with schema 0.
type Histogram struct {
	// Buckets[i] counts durations of at most BucketBound(i) that are longer than
	// BucketBound(i-1).
	Buckets [NumBuckets]uint64

	// SumMicros is the sum of all durations in microseconds. Each duration is rounded down to
	// whole microseconds. A
	// time.Duration could not hold the lifetimes of a million connections of a day each.
	SumMicros uint64
}

// BucketBound returns the longest duration in bucket i of a [Histogram]: 2 to the power of
// i-20 seconds, rounded down to nanoseconds. The last bucket has no bound, and BucketBound
// returns the longest Duration there is.
func BucketBound(i int) time.Duration {
	if i >= NumBuckets-1 {
		return math.MaxInt64
	}
	if i < -leastBound {
		return time.Second >> (-leastBound - i)
	}
	return time.Second << (leastBound + i)
}

// Count returns the number of durations in h.
func (h *Histogram) Count() (n uint64) {
	for _, in := range h.Buckets {
		n += in
	}
	return n
}

// Quantile returns the duration that a share q of all durations does not exceed. q is from 0 to
// 1. The result is the bound of a bucket, so it may be up to twice as long. It is 0 if h is empty.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := uint64(math.Ceil(q * float64(h.Count())))
	sum := uint64(0)
	for i, in := range h.Buckets {
		if sum += in; in > 0 && sum >= rank {
			return BucketBound(i)
		}
	}
	return 0
}

// Add adds the durations that another histogram has counted.
func (h *Histogram) Add(other *Histogram) {
	for i, n := range other.Buckets {
		h.Buckets[i] += n
	}
	h.SumMicros += other.SumMicros
}

// note counts a duration.
func (h *Histogram) note(d time.Duration) {
	h.Buckets[bucketOf(d)]++
	h.SumMicros += uint64(max(d, 0).Microseconds())
}

// bucketOf returns the index of the bucket of d. Its length in bits tells the index, or the
// one before.
func bucketOf(d time.Duration) int {
	if d <= 0 {
		return 0
	}
	i := max(bits.Len64(uint64(d))-10, 0) // because 2⁹ ns < BucketBound(0) < 2¹⁰ ns
	if d > BucketBound(i) {
		i++
	}
	return min(i, NumBuckets-1)
}
