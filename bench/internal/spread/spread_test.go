package spread

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestPercentiles compares them with those of all values, sorted.
func TestPercentiles(t *testing.T) {
	s := New()
	rnd := rand.New(rand.NewPCG(1, 2))
	var all []time.Duration
	for range 10_000 {
		d := time.Duration(rnd.Int64N(1 << (1 + rnd.IntN(46))))
		all = append(all, d)
		s.Add(d)
	}
	slices.Sort(all)
	for _, percent := range []float64{1, 50, 90, 99, 99.9, 100} {
		want := all[int(percent/100*float64(len(all)))-1]
		got := s.At(percent)
		if got < want || got > want+want/1000 {
			t.Errorf("%v %%: got %d, want %d or up to a thousandth more", percent, got, want)
		}
	}
	if s.Most() != all[len(all)-1] || s.Count() != int64(len(all)) {
		t.Errorf("most %v of %d", s.Most(), s.Count())
	}
}

func TestBounds(t *testing.T) {
	s := New()
	if s.At(50) != 0 || s.Most() != 0 || s.Count() != 0 {
		t.Error("there is something in nothing")
	}
	s.Add(48 * time.Hour)
	s.Add(-time.Second)
	if s.Most() != longest || s.At(100) != longest || s.At(50) != 0 {
		t.Errorf("most %v, median %v", s.Most(), s.At(50))
	}
	for _, d := range []time.Duration{0, 1, 1023, 1024, 2047, 2048, 2049, 4095, 4096, longest} {
		if got := top(bucket(d)); bucket(got) != bucket(d) || bucket(got+1) == bucket(d) || got < d {
			t.Errorf("%d is in a bucket up to %d", d, got)
		}
	}
}
