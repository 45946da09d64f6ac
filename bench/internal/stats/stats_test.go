package stats

import (
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	for want, values := range map[float64][]float64{0: nil, 2: {3, 1, 2}, 2.5: {4, 1, 3, 2}} {
		if got := Median(values); got != want {
			t.Errorf("%v: got %v, want %v", values, got, want)
		}
	}
}

func TestConfidence(t *testing.T) {
	var values []float64
	for i := range 15 {
		values = append(values, float64(14-i))
	}
	if got := Confidence(values); got == nil || *got != (Interval{3, 11}) { // the 4th and the 12th of 15, by the binomial
		t.Errorf("got %v", got)
	}
	if got := Confidence([]float64{1}); got != nil {
		t.Errorf("one value tells %v", *got)
	}
}

func TestRatio(t *testing.T) {
	for want, values := range map[string][]float64{
		"2.000 (1.500 to 2.000)":   {2, 4, 6, 8, 10, 12},
		"~ 1.000 (0.833 to 1.500)": {1, 3, 3, 4, 5, 8 * 5.0 / 6},
	} {
		if got := RatioOf(values, []float64{1, 2, 3, 4, 5, 8}).String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := RatioOf([]float64{1}, []float64{2}).String(); got != "0.5 (one round)" {
		t.Errorf("one round: %s", got)
	}
	if got := RatioOf([]float64{1, 2, 3}, []float64{1, 2, 3}).String(); got != "1" {
		t.Errorf("to itself: %s", got)
	}
	if got := (*Ratio)(nil).String(); got != "-" {
		t.Errorf("none: %s", got)
	}
}

func TestSpread(t *testing.T) {
	var s Spread
	if s.At(50) != 0 || s.Most() != 0 || s.Count() != 0 {
		t.Error("there is something in nothing")
	}
	for i := range 100 {
		s.Add(time.Duration(100-i) * time.Millisecond)
	}
	if got, want := s.Summary(), (Summary{50, 99, 100}); got != want || s.Count() != 100 {
		t.Errorf("got %+v of %d, want %+v", got, s.Count(), want)
	}
}
