package stats

import "testing"

func TestSummarize(t *testing.T) {
	if got, want := Summarize([]float64{4, 1, 3, 2}), (Summary{2.5, 1, 4}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := Median(nil); got != 0 {
		t.Errorf("the median of nothing is %v", got)
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
	if values[0] != 14 {
		t.Error("the values were sorted in place")
	}
	// Student's t for two degrees of freedom is 4.303, and the standard error 1/sqrt 3.
	if got := Confidence([]float64{1, 2, 3}); got == nil || got[0] > -0.48 || got[0] < -0.49 || got[1] < 4.48 || got[1] > 4.49 {
		t.Errorf("three values: got %v", got)
	}
	if got := Confidence([]float64{1}); got != nil {
		t.Errorf("one value tells %v", *got)
	}
}

func TestRatio(t *testing.T) {
	r := RatioOf([]float64{2, 4, 6, 8, 10, 12}, []float64{1, 2, 3, 4, 5, 8})
	if r.Median != 2 || !r.Shows() || r.String() != "2.000 (1.500 to 2.000)" {
		t.Errorf("got %v, shows %v", r, r.Shows())
	}
	same := RatioOf([]float64{1, 2, 3, 4, 5, 6}, []float64{2, 1, 3, 4, 6, 5})
	if same.Shows() {
		t.Errorf("%v shows a difference", same)
	}
	if one := RatioOf([]float64{1}, []float64{2}); one.Shows() || one.String() != "0.500 (one round)" {
		t.Errorf("one round: %v", one)
	}
}
