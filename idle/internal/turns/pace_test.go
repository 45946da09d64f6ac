package turns

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func TestPace(t *testing.T) {
	const ms = time.Millisecond
	type step struct {
		d         time.Duration
		remaining int
		want      int
	}
	for name, test := range map[string]struct {
		pace  Pace
		steps []step
	}{
		"all at once":                 {Pace{}, []step{{0, 7, 7}, {10 * ms, 0, 0}, {10 * ms, 3, 3}}},
		"over a time":                 {Pace{Left: 40 * ms}, []step{{0, 8, 0}, {10 * ms, 8, 2}, {10 * ms, 6, 2}, {10 * ms, 4, 2}, {10 * ms, 2, 2}}},
		"parts add up":                {Pace{Left: 40 * ms}, []step{{10 * ms, 2, 0}, {10 * ms, 2, 1}, {10 * ms, 1, 0}, {10 * ms, 1, 1}}},
		"newcomers within the time":   {Pace{Left: 40 * ms}, []step{{10 * ms, 4, 1}, {10 * ms, 6, 2}, {10 * ms, 4, 2}, {10 * ms, 2, 2}}},
		"after the time all at once":  {Pace{Left: 10 * ms}, []step{{10 * ms, 1, 1}, {10 * ms, 50, 50}}},
		"nobody first":                {Pace{Left: 40 * ms}, []step{{20 * ms, 0, 0}, {10 * ms, 4, 2}, {10 * ms, 2, 2}}},
		"less than a step":            {Pace{Left: 1}, []step{{0, 5, 0}, {10 * ms, 5, 5}}},
		"a stall is made up in time":  {Pace{Left: 400 * ms}, []step{{200 * ms, 40, 20}, {100 * ms, 20, 10}, {100 * ms, 10, 10}}},
		"a stall beyond the time":     {Pace{Left: 100 * ms}, []step{{time.Hour, 40, 40}}},
		"rate":                        {Pace{Rate: 100}, []step{{10 * ms, 50, 1}, {25 * ms, 49, 2}, {5 * ms, 47, 1}}},
		"slow rate":                   {Pace{Rate: 10}, []step{{50 * ms, 5, 0}, {50 * ms, 5, 1}, {50 * ms, 4, 0}, {50 * ms, 4, 1}}},
		"no bonus after a stall":      {Pace{Rate: 100}, []step{{time.Hour, 5000, 50}, {10 * ms, 4950, 1}}},
		"nothing is saved for nobody": {Pace{Rate: 100}, []step{{50 * ms, 1, 1}, {50 * ms, 0, 0}, {10 * ms, 50, 1}}},
		"huge rate":                   {Pace{Rate: 1e300}, []step{{10 * ms, 50, 50}, {10 * ms, 1, 1}}},
		"hugest rate":                 {Pace{Rate: math.MaxFloat64}, []step{{10 * ms, 50, 50}}},
		"tiny rate":                   {Pace{Rate: 1e-300}, []step{{time.Hour, 50, 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			p := test.pace
			for i, s := range test.steps {
				if got := p.Step(s.d, s.remaining); got != s.want {
					t.Fatalf("step %d %+v: %d; %+v", i, s, got, p)
				}
			}
		})
	}
}

func TestPaceExpected(t *testing.T) {
	for _, test := range []struct {
		pace      Pace
		remaining int
		want      time.Duration
	}{
		{Pace{}, 5, 0},
		{Pace{Left: time.Second}, 0, 0},
		{Pace{Left: time.Second}, 5, time.Second},
		{Pace{Rate: 10}, 5, 500 * time.Millisecond},
		{Pace{Rate: 10}, 0, 0},
		{Pace{Rate: 1e300}, 5, 0},
		{Pace{Rate: 1e-300}, 5, math.MaxInt64},
		{Pace{Rate: 1e-10}, 1e6, math.MaxInt64},
	} {
		if got := test.pace.Expected(test.remaining); got != test.want {
			t.Errorf("%+v, %d remaining: %v, want %v", test.pace, test.remaining, got, test.want)
		}
	}
}

// TestPaceIsEven has a million end within a minute, in steps of any length. Every second
// has its share within a hundredth, all have ended in time, and not before.
func TestPaceIsEven(t *testing.T) {
	const n, over = 1_000_000, time.Minute
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 0))
		for _, p := range []Pace{{Left: over}, {Rate: n / over.Seconds()}} {
			at, left, seconds := time.Duration(0), n, make([]int, 70)
			for left > 0 && at < 65*time.Second {
				d := time.Duration(1 + rng.Int64N(int64([]time.Duration{time.Microsecond, 20 * time.Millisecond, 100 * time.Millisecond}[seed%3])))
				if seed%3 == 0 {
					d *= 10_000 // equal steps of 10 ms at most
				}
				at += d
				k := p.Step(d, left)
				left -= k
				seconds[at/time.Second] += k
			}
			if left != 0 || at < over-time.Millisecond || at > over+200*time.Millisecond {
				t.Fatalf("seed %d, %+v: %d are left after %v", seed, p, left, at)
			}
			share := n / over.Seconds()
			for i, k := range seconds[:59] {
				most := 0.01 + 2*0.1*float64(seed%3)/2 // a step may fall into two seconds
				if dev := math.Abs(float64(k)-share) / share; dev > most {
					t.Fatalf("seed %d, %+v: %d in second %d, want %v", seed, p, k, i, share)
				}
			}
		}
	}
}

// TestPaceSumsUp has any steps and newcomers. With a rate no more have their turn than
// in the time that has passed, and no fewer while some wait.
func TestPaceSumsUp(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		p := Pace{Rate: math.Exp(rng.Float64() * 12)}
		waiting, had, passed := 1<<30, 0, 0.0
		for range 300 {
			d := time.Duration(rng.Int64N(int64(longestStep) + 1))
			passed += d.Seconds()
			k := p.Step(d, waiting)
			waiting -= k
			had += k
			if want := p.Rate * passed; float64(had) > want+1e-6*want || float64(had) < want-1-1e-6*want {
				t.Fatalf("seed %d: %d after %v s at %v", seed, had, passed, p.Rate)
			}
		}
	}
}
