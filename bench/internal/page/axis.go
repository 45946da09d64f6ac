package page

import (
	"fmt"
	"math"
	"strconv"
)

// A Tick is a place on an axis. Those without a label are small.
type Tick struct {
	At    float64
	Label string
}

// An axis maps values from lo to hi to places from begin to end.
type axis struct {
	lo, hi, begin, end float64
	log                bool
}

func (a axis) at(v float64) float64 {
	lo, hi := a.lo, a.hi
	if a.log {
		lo, hi, v = math.Log10(lo), math.Log10(hi), math.Log10(v)
	}
	if hi == lo {
		return (a.begin + a.end) / 2
	}
	return a.begin + (v-lo)/(hi-lo)*(a.end-a.begin)
}

// ticks returns round numbers on the axis.
func (a axis) ticks() []Tick {
	if a.log {
		return decades(a.lo, a.hi)
	}
	return linear(a.lo, a.hi)
}

// decades returns ticks with labels at powers of ten, and small ticks between them.
func decades(lo, hi float64) []Tick {
	var ticks []Tick
	for e := math.Floor(math.Log10(lo)); e <= math.Ceil(math.Log10(hi)); e++ {
		for m := 1; m <= 9; m++ {
			v := float64(m) * math.Pow(10, e)
			if v < lo*(1-1e-9) || v > hi*(1+1e-9) {
				continue
			}
			t := Tick{At: v}
			if m == 1 {
				t.Label = quantity(v)
			}
			ticks = append(ticks, t)
		}
	}
	return ticks
}

// linear returns about six round numbers.
func linear(lo, hi float64) []Tick {
	var ticks []Tick
	step := roundStep((hi - lo) / 6)
	for v := math.Ceil(lo/step) * step; v <= hi*(1+1e-9); v += step {
		ticks = append(ticks, Tick{v, fmt.Sprintf("%.6g", math.Round(v/step)*step)})
	}
	return ticks
}

// roundStep returns the least of 1, 2 and 5 times a power of ten that is not
// below v.
func roundStep(v float64) float64 {
	if v <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*unit >= v {
			return m * unit
		}
	}
	return 10 * unit
}

// quantity writes a number of an axis.
func quantity(v float64) string {
	switch {
	case v >= 1e6:
		return strconv.FormatFloat(v/1e6, 'g', 4, 64) + "M"
	case v >= 1e3:
		return strconv.FormatFloat(v/1e3, 'g', 4, 64) + "k"
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}
