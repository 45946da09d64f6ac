package pressure

import "slices"

const (
	gaugeKeeps = 10   // readings
	gaugeStep  = 0.05 // the least change, but to 0 and 1
)

// A gauge turns noisy values from 0 to 1 into a steady one. The zero gauge shows 0.
type gauge struct {
	recent [gaugeKeeps]float64 // a ring
	next   int
	shows  float64
}

// note adds a value, and reports whether the steady value has changed.
func (g *gauge) note(value float64) (changed bool) {
	g.recent[g.next] = value
	g.next = (g.next + 1) % len(g.recent)
	highest := slices.Max(g.recent[:])
	by := highest - g.shows
	if by == 0 || max(by, -by) < gaugeStep && highest > 0 && highest < 1 {
		return false
	}
	g.shows = highest
	return true
}
