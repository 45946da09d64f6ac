// Package stats sums up what was measured.
package stats

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"golang.org/x/perf/benchmath"

	"github.com/idlewheel/idlewheel/bench/internal/table"
)

// Median returns the median of values, or 0 if there are none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	v := slices.Sorted(slices.Values(values))
	mid := len(v) / 2
	if len(v)%2 == 0 {
		return (v[mid-1] + v[mid]) / 2
	}
	return v[mid]
}

// An Interval is where a value lies with 95 % confidence.
type Interval [2]float64

// Confidence returns the interval of the median of values, as benchstat computes it: it
// assumes nothing about their distribution, which takes six of them. With fewer it
// assumes a normal distribution. It returns nil for fewer than two.
func Confidence(values []float64) *Interval {
	if len(values) < 2 {
		return nil
	}
	sample := benchmath.NewSample(slices.Clone(values), &benchmath.DefaultThresholds)
	s := benchmath.AssumeNothing.Summary(sample, 0.95)
	if math.IsInf(s.Lo, 0) || math.IsInf(s.Hi, 0) {
		s = benchmath.AssumeNormal.Summary(sample, 0.95)
	}
	return &Interval{s.Lo, s.Hi}
}

// A Ratio is the median of the ratios within rounds, and its interval.
type Ratio struct {
	Median   float64   `json:"median"`
	Interval *Interval `json:"interval_95,omitempty"` // nil if it isn't known
}

// RatioOf compares values with others of the same rounds. The interval is computed of
// the logarithms, because they are closer to a normal distribution than ratios are.
func RatioOf(values, to []float64) *Ratio {
	all, logs := make([]float64, len(values)), make([]float64, len(values))
	for i := range values {
		all[i] = values[i] / to[i]
		logs[i] = math.Log(all[i])
	}
	r := &Ratio{Median: Median(all)}
	if c := Confidence(logs); c != nil {
		r.Interval = &Interval{math.Exp(c[0]), math.Exp(c[1])}
	}
	return r
}

// String returns the ratio with its interval, and a ~ before it if the interval
// contains 1, so that no difference is shown. It is "-" for nil.
func (r *Ratio) String() string {
	switch {
	case r == nil:
		return "-"
	case r.Interval == nil:
		return fmt.Sprintf("%.3g (one round)", r.Median)
	case *r.Interval == Interval{1, 1}:
		return "1" // a variant compared with itself
	}
	mark := ""
	if r.Interval[0] <= 1 && r.Interval[1] >= 1 {
		mark = "~ "
	}
	return fmt.Sprintf("%s%.3f (%.3f to %.3f)", mark, r.Median, r.Interval[0], r.Interval[1])
}

// A Spread collects durations. Any goroutine may use it.
type Spread struct {
	mu  sync.Mutex
	all []time.Duration
}

// Add adds a duration.
func (s *Spread) Add(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, d)
}

// At returns the duration that the given percentage doesn't exceed, or 0 if there is none.
func (s *Spread) At(percent float64) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) == 0 {
		return 0
	}
	slices.Sort(s.all)
	return s.all[max(0, int(math.Ceil(percent/100*float64(len(s.all))))-1)]
}

// A Summary describes a Spread, in ms.
type Summary struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// Summary returns the summary of s.
func (s *Spread) Summary() Summary {
	return Summary{table.Millis(s.At(50)), table.Millis(s.At(99)), table.Millis(s.At(100))}
}
