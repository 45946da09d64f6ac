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
	values := []float64{14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0}
	if got := Confidence(values); got == nil || *got != (Interval{3, 11}) { // the 4th and the 12th of 15, by the binomial
		t.Errorf("got %v", got)
	}
}

func TestRatio(t *testing.T) {
	six := []float64{1, 2, 3, 4, 5, 8}
	for want, got := range map[string]*Ratio{
		"2.000 (1.500 to 2.000)":   RatioOf([]float64{2, 4, 6, 8, 10, 12}, six),
		"~ 1.000 (0.833 to 1.500)": RatioOf([]float64{1, 3, 3, 4, 5, 8 * 5.0 / 6}, six),
		"0.5 (one round)":          RatioOf(six[:1], six[1:2]),
		"1":                        RatioOf(six[:3], six[:3]), // too few for an interval without an assumption
		"-":                        nil,
	} {
		if got.String() != want {
			t.Errorf("got %v, want %s", got, want)
		}
	}
}

func TestSpread(t *testing.T) {
	var s Spread
	if s.At(50) != 0 {
		t.Error("there is something in nothing")
	}
	for i := range 100 {
		s.Add(time.Duration(100-i) * time.Millisecond)
	}
	if got, want := s.Summary(), (Summary{50, 99, 100}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
