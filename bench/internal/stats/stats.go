// Package stats compares what was measured in rounds.
package stats

import (
	"fmt"
	"math"
	"slices"

	"golang.org/x/perf/benchmath"
)

// A Summary is how values are distributed.
type Summary struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// Summarize returns the summary of values, of which there must be one.
func Summarize(values []float64) Summary {
	return Summary{Median: Median(values), Min: slices.Min(values), Max: slices.Max(values)}
}

// Median returns the median of values, 0 if there are none.
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

// Ratios returns the ratios within the rounds.
func Ratios(values, to []float64) []float64 {
	all := make([]float64, len(values))
	for i := range values {
		all[i] = values[i] / to[i]
	}
	return all
}

// An Interval is where a value lies with 95 % confidence.
type Interval [2]float64

// Confidence returns the interval of the median of values, as benchstat does: it
// assumes nothing of how they are distributed, which takes six of them. With
// fewer it assumes a normal distribution. It returns nil for less than two.
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

// A Ratio is the median of the ratios within rounds, and where it lies with 95 %
// confidence.
type Ratio struct {
	Median   float64
	Interval *Interval // nil if it is not known
}

// RatioOf compares values with others of the same rounds. The interval is found by
// the logarithms, as ratios are distributed more like those.
func RatioOf(values, to []float64) Ratio {
	all := Ratios(values, to)
	logs := make([]float64, len(all))
	for i, r := range all {
		logs[i] = math.Log(r)
	}
	r := Ratio{Median: Median(all)}
	if c := Confidence(logs); c != nil {
		r.Interval = &Interval{math.Exp(c[0]), math.Exp(c[1])}
	}
	return r
}

// String returns the ratio with its interval.
func (r Ratio) String() string {
	if r.Interval == nil {
		return short(r.Median) + " (one round)"
	}
	return fmt.Sprintf("%s (%s to %s)", short(r.Median), short(r.Interval[0]), short(r.Interval[1]))
}

// short writes a ratio, a very large one with three digits.
func short(ratio float64) string {
	if ratio >= 10 {
		return fmt.Sprintf("%.3g", ratio)
	}
	return fmt.Sprintf("%.3f", ratio)
}

// Shows reports whether the interval shows a difference: whether it leaves out 1.
func (r Ratio) Shows() bool {
	return r.Interval != nil && (r.Interval[0] > 1 || r.Interval[1] < 1)
}
