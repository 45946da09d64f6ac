package idleprom

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/idlewheel/idlewheel/idle"
)

// bounds chooses the bounds of classic buckets, in seconds: 2 to the powers first, first+step and
// so on, up to last. idle.Histogram has all of these bounds too, so no count is estimated.
type bounds struct{ first, last, step int }

var (
	span  = bounds{-10, 24, 2} // 1 ms to 194 days, as lifetimes are
	delay = bounds{-10, 6, 1}  // 1 ms to 64 s
)

// In native histograms with this schema the bounds are the powers of 2. The first bound of
// idle.Histogram is 2 to the power of zeroPower. What is less counts as zero.
const (
	schema    = int32(0)
	zeroPower = -20
)

// A histogram is a prometheus.Metric that has classic and native buckets.
type histogram struct {
	desc *prometheus.Desc
	dto  dto.Histogram
}

func (h *histogram) Desc() *prometheus.Desc { return h.desc }

func (h *histogram) Write(m *dto.Metric) error {
	m.Label = prometheus.MakeLabelPairs(h.desc, nil)
	m.Histogram = &h.dto
	return nil
}

// putHistogram writes a histogram.
func (o output) putHistogram(f family, from *idle.Histogram, b bounds) {
	h := &histogram{desc: o.descs[f]}
	n, sum := from.Count(), float64(from.SumMicros)/1e6
	h.dto.SampleCount, h.dto.SampleSum = &n, &sum
	h.setClassic(from, b)
	h.setNative(from)
	o.ch <- h
}

// setClassic sets the classic buckets. Each counts all that is below its bound. The
// bucket of +Inf is not written, as Prometheus adds it.
func (h *histogram) setClassic(from *idle.Histogram, b bounds) {
	below, power := uint64(0), b.first
	for i, n := range from.Buckets {
		below += n
		if i+zeroPower == power && power <= b.last {
			below, bound := below, math.Ldexp(1, power)
			h.dto.Bucket = append(h.dto.Bucket, &dto.Bucket{CumulativeCount: &below, UpperBound: &bound})
			power += b.step
		}
	}
}

// setNative sets the native buckets: one span from the first that is not empty to the last
// one. Their index is the power of their upper bounds. idle.Histogram has no bound for the
// last one, which has the next power here.
func (h *histogram) setNative(from *idle.Histogram) {
	schema, zero, zeros := schema, math.Ldexp(1, zeroPower), from.Buckets[0]
	h.dto.Schema, h.dto.ZeroThreshold, h.dto.ZeroCount = &schema, &zero, &zeros
	first, last := 1, len(from.Buckets)-1
	for first <= last && from.Buckets[first] == 0 {
		first++
	}
	for last > first && from.Buckets[last] == 0 {
		last--
	}
	if first > last {
		return
	}
	offset, length := int32(first+zeroPower), uint32(last-first+1)
	h.dto.PositiveSpan = []*dto.BucketSpan{{Offset: &offset, Length: &length}}
	before := int64(0)
	for _, n := range from.Buckets[first : last+1] {
		h.dto.PositiveDelta = append(h.dto.PositiveDelta, int64(n)-before)
		before = int64(n)
	}
}
