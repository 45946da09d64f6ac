package page

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
)

// decades are the ticks of a logarithmic axis: labels at powers of ten, and
// small ticks between them.
type decades struct{ most float64 } // no tick is beyond

func (d decades) Ticks(lo, hi float64) []plot.Tick {
	var ticks []plot.Tick
	for e := math.Floor(math.Log10(lo)); e <= math.Ceil(math.Log10(hi)); e++ {
		for m := 1; m <= 9; m++ {
			v := float64(m) * math.Pow(10, e)
			if v < lo*(1-1e-9) || v > min(hi, d.most)*(1+1e-9) {
				continue
			}
			t := plot.Tick{Value: v}
			if m == 1 {
				t.Label = quantity(v)
			}
			ticks = append(ticks, t)
		}
	}
	return ticks
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

// fixed are the ticks of an axis that are given.
type fixed []plot.Tick

func (f fixed) Ticks(lo, hi float64) []plot.Tick {
	var ticks []plot.Tick
	for _, t := range f {
		if t.Value >= lo && t.Value <= hi {
			ticks = append(ticks, t)
		}
	}
	return ticks
}

// linear are the ticks of an axis from 0 on, round numbers up to most.
type linear struct{ most float64 }

func (l linear) Ticks(lo, hi float64) []plot.Tick {
	var ticks []plot.Tick
	step := roundStep((min(hi, l.most) - lo) / 6)
	for v := math.Ceil(lo/step) * step; v <= min(hi, l.most)*(1+1e-9); v += step {
		label := strings.TrimSuffix(fmt.Sprintf("%.6g", math.Round(v/step)*step), ".0")
		ticks = append(ticks, plot.Tick{Value: v, Label: label})
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
