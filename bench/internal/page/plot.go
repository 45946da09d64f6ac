package page

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// A Plot is a plot of lines.
type Plot struct {
	Title, Caption string
	XLabel, YLabel string
	Log            bool // both axes are logarithmic
	Series         []Series
}

// A Series is the points of a line, from left to right. Strong is the line that the
// plot is about.
type Series struct {
	Name   string
	X, Y   []float64
	Strong bool
}

// The size of a plot, and where its axes lie.
const (
	width, height = 720, 400
	left, right   = 62, width - 150 // to the right are the names
	top, bottom   = 12, height - 46
)

// SVG draws p. It fails if there is nothing to draw.
func (p Plot) SVG() (string, error) {
	x, y := axis{log: p.Log, begin: left, end: right}, axis{log: p.Log, begin: bottom, end: top}
	series := slices.DeleteFunc(slices.Clone(p.Series), func(s Series) bool { return len(s.X) == 0 })
	if len(series) == 0 {
		return "", fmt.Errorf("plot %q: there is nothing to draw", p.Title)
	}
	for _, s := range series {
		x.values, y.values = append(x.values, s.X...), append(y.values, s.Y...)
	}
	if !p.Log {
		y.values = append(y.values, 0)
	}
	var d strings.Builder
	fmt.Fprintf(&d, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="11">`+"\n", width, height)
	fmt.Fprintf(&d, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	text := func(x, y float64, anchor, color, text string) {
		fmt.Fprintf(&d, `<text x="%.1f" y="%.1f" dy="0.35em" text-anchor="%s" fill="%s">%s</text>`+"\n", x, y, anchor, color, html.EscapeString(text))
	}
	const ink, soft, pale = "#1d2430", "#5b6675", "#e3e7ec"
	for _, t := range y.ticks() {
		fmt.Fprintf(&d, `<path d="M%d %.1fH%d" stroke="%s"/>`+"\n", left, y.at(t), right, pale)
		text(left-8, y.at(t), "end", ink, quantity(t))
	}
	for _, t := range x.ticks() {
		fmt.Fprintf(&d, `<path d="M%.1f %dv4" stroke="%s"/>`+"\n", x.at(t), bottom, soft)
		text(x.at(t), bottom+13, "middle", ink, quantity(t))
	}
	fmt.Fprintf(&d, `<path d="M%d %dV%dH%d" fill="none" stroke="%s"/>`+"\n", left, top, bottom, right, soft)
	text((left+right)/2, height-12, "middle", soft, p.XLabel)
	text(left, top-6, "start", soft, p.YLabel)

	for i, s := range series {
		color, thick := "#0b5cad", 3.5
		if !s.Strong {
			color, thick = colors()[i%len(colors())], 1.5
		}
		fmt.Fprintf(&d, `<polyline fill="none" stroke="%s" stroke-width="%g" points="`, color, thick)
		for j := range s.X {
			fmt.Fprintf(&d, "%.1f,%.1f ", x.at(s.X[j]), y.at(s.Y[j]))
		}
		row := float64(top + 10 + 18*i)
		fmt.Fprintf(&d, `"/><path d="M%d %.1fh22" stroke="%s" stroke-width="%g"/>`+"\n", right+10, row, color, thick)
		text(right+38, row, "start", color, s.Name)
	}
	d.WriteString("</svg>\n")
	return d.String(), nil
}

// colors are those of Okabe and Ito that have enough contrast to white, some darkened.
// Blue is left to what is strong.
func colors() []string {
	return []string{"#d55e00", "#008c66", "#b85c93", "#b88600", "#3a3f47", "#3b9bc9", "#8c1d18", "#6b7f2a"}
}

// An axis maps the range of its values to places from begin to end.
type axis struct {
	values     []float64
	log        bool
	begin, end float64
}

func (a axis) scale(v float64) float64 {
	if a.log {
		return math.Log10(v)
	}
	return v
}

func (a axis) at(v float64) float64 {
	lo, hi := a.scale(slices.Min(a.values)), a.scale(slices.Max(a.values))
	if hi == lo {
		return (a.begin + a.end) / 2
	}
	return a.begin + (a.scale(v)-lo)/(hi-lo)*(a.end-a.begin)
}

// ticks returns the powers of ten on a logarithmic axis, and else about six round
// numbers.
func (a axis) ticks() (all []float64) {
	lo, hi := slices.Min(a.values), slices.Max(a.values)
	if a.log {
		for e := math.Ceil(math.Log10(lo)); e <= math.Log10(hi); e++ {
			all = append(all, math.Pow(10, e))
		}
		return all
	}
	step := math.Pow(10, math.Floor(math.Log10(max(hi-lo, 1e-9))))
	if (hi-lo)/step < 3 {
		step /= 5
	}
	for i := math.Ceil(lo / step); i*step <= hi; i++ {
		all = append(all, i*step)
	}
	return all
}

// quantity writes a number of an axis.
func quantity(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.4gM", v/1e6)
	case v >= 1e3:
		return fmt.Sprintf("%.4gk", v/1e3)
	}
	return fmt.Sprintf("%.4g", v)
}
