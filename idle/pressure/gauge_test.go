package pressure

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestGauge has a gauge note values, each of them so many times.
func TestGauge(t *testing.T) {
	type value struct {
		is    float64
		times int
	}
	for name, test := range map[string]struct {
		values []value
		want   []float64 // what it shows, whenever that has changed
	}{
		"rises at once":                {[]value{{0.3, 1}, {0.7, 1}, {1, 1}}, []float64{0.3, 0.7, 1}},
		"falls after ten readings":     {[]value{{1, 1}, {0.2, 9}}, []float64{1}},
		"falls with the tenth":         {[]value{{1, 1}, {0.2, 10}}, []float64{1, 0.2}},
		"a peak counts anew":           {[]value{{1, 1}, {0.2, 9}, {1, 1}, {0.2, 9}}, []float64{1}},
		"falls to the highest":         {[]value{{1, 1}, {0.2, 9}, {0.6, 1}, {0.2, 8}}, []float64{1, 0.6}},
		"ignores what is small":        {[]value{{0.04, 20}}, nil},
		"ignores small changes":        {[]value{{0.5, 20}, {0.54, 20}, {0.46, 20}}, []float64{0.5}},
		"follows a drift":              {[]value{{0.5, 1}, {0.52, 1}, {0.54, 1}, {0.56, 1}, {0.58, 1}}, []float64{0.5, 0.56}},
		"reaches the ends by small":    {[]value{{0.97, 1}, {1, 1}, {0.96, 30}, {0.03, 10}, {0, 10}}, []float64{0.97, 1, 0.03, 0}},
		"stays where it is at the end": {[]value{{0, 20}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var g gauge
			var got []float64
			for _, v := range test.values {
				for range v.times {
					if was := g.shows; g.note(v.is) {
						got = append(got, g.shows)
					} else if g.shows != was {
						t.Errorf("went from %v to %v unnoticed", was, g.shows)
					}
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("showed %v, want %v", got, test.want)
			}
		})
	}
}

// TestGaugeOfNoise has readings scatter about a half. What the gauge shows is never far
// below a reading, nor far above all that were, and changes much less often than they do.
func TestGaugeOfNoise(t *testing.T) {
	const readings = 10_000
	for by, mayChange := range map[float64]int{0.02: 1, 0.1: readings / 20, 0.4: readings / 8} {
		rng, g, changes := rand.New(rand.NewPCG(3, 4)), gauge{}, 0
		for range readings {
			reading := 0.5 + by*(2*rng.Float64()-1)
			if g.note(reading) {
				changes++
			}
			if g.shows < reading-gaugeStep || g.shows > 0.5+by {
				t.Fatalf("shows %v at %v, with noise by %v", g.shows, reading, by)
			}
		}
		t.Logf("noise by %v: %d changes", by, changes)
		if changes > mayChange {
			t.Errorf("noise by %v: %d changes in %d readings, want %d at most", by, changes, readings, mayChange)
		}
	}
}
