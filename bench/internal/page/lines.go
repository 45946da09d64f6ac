package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Lines is a plot of lines, each with its name beside its end.
type Lines struct {
	Title, Caption string
	XLabel, YLabel string
	LogX, LogY     bool
	XTicks         []Tick // nil for round numbers
	Series         []Series
}

// Series are the points of a line, from left to right. Those that a logarithmic
// axis cannot show are left out. A series without points is not drawn; it keeps
// the styles of those after it what they are in another plot. Strong is what
// the plot is about.
type Series struct {
	Name   string
	X, Y   []float64
	Strong bool
	Plain  bool // no marks at the points, for there are many
}

// The margins of a plot of lines.
const (
	leftMargin   = 62
	topMargin    = 12
	bottomMargin = 46
	nameStrip    = 150 // to the right, for the names
	nameSpacing  = 16
	nameSample   = 22 // how long the sample of a line is
)

// A drawnLine is a series with its style, and the points that can be shown.
type drawnLine struct {
	Series
	style
	points [][2]float64
}

// Plot draws l. It fails if there is nothing to draw.
func (l Lines) Plot() (Plot, error) {
	lines := l.lines()
	if len(lines) == 0 {
		return Plot{}, fmt.Errorf("page: plot %q: none of its %d series has a point that can be drawn", l.Title, len(l.Series))
	}
	x, y := l.axes(lines)
	d := newDrawing(height)
	l.drawAxes(d, x, y)
	for i := range lines {
		for j, p := range lines[i].points {
			lines[i].points[j] = [2]float64{x.at(p[0]), y.at(p[1])}
		}
	}
	slices.SortStableFunc(lines, func(a, b drawnLine) int { // the strong ones lie on top
		return cmp.Compare(a.width, b.width)
	})
	for _, line := range lines {
		d.curve(line.points, line.style)
		for _, p := range line.points {
			if !line.Plain {
				d.mark(p[0], p[1], line.style)
			}
		}
	}
	drawNames(d, lines, x.end, y)
	return Plot{Title: l.Title, Caption: l.Caption, SVG: d.finish()}, nil
}

// lines returns the series that have points.
func (l Lines) lines() []drawnLine {
	var all []drawnLine
	weak := 0
	for _, s := range l.Series {
		line := drawnLine{Series: s, style: strongStyle()}
		if !s.Strong {
			line.style = styleOf(weak)
			weak++ // also if it is not drawn: its style is its own
		}
		for i := range s.X {
			x, y := s.X[i], s.Y[i]
			if l.LogX && x <= 0 || l.LogY && y <= 0 || math.IsNaN(x+y) || math.IsInf(x+y, 0) {
				continue
			}
			line.points = append(line.points, [2]float64{x, y})
		}
		if len(line.points) > 0 {
			all = append(all, line)
		}
	}
	return all
}

// axes returns axes for all points.
func (l Lines) axes(lines []drawnLine) (x, y axis) {
	x = axis{math.Inf(1), math.Inf(-1), leftMargin, width - nameStrip, l.LogX}
	y = axis{math.Inf(1), math.Inf(-1), height - bottomMargin, topMargin, l.LogY}
	for _, line := range lines {
		for _, p := range line.points {
			x.lo, x.hi = min(x.lo, p[0]), max(x.hi, p[0])
			y.lo, y.hi = min(y.lo, p[1]), max(y.hi, p[1])
		}
	}
	if l.LogY {
		y.lo, y.hi = y.lo/1.3, y.hi*1.3
	} else {
		y.lo, y.hi = min(0, y.lo), y.hi*1.05
	}
	return x, y
}

func (l Lines) drawAxes(d *drawing, x, y axis) {
	for _, t := range y.ticks() {
		if t.Label != "" {
			d.line(x.begin, y.at(t.At), x.end, y.at(t.At), pale, 0.8)
			d.text(x.begin-8, y.at(t.At), "end", ink, t.Label)
		}
		d.line(x.begin-4, y.at(t.At), x.begin, y.at(t.At), soft, 0.6)
	}
	ticks := l.XTicks
	if ticks == nil {
		ticks = x.ticks()
	}
	for _, t := range ticks {
		if t.At < x.lo || t.At > x.hi {
			continue
		}
		d.line(x.at(t.At), y.begin, x.at(t.At), y.begin+4, soft, 0.6)
		d.text(x.at(t.At), y.begin+13, "middle", ink, t.Label)
	}
	d.line(x.begin, y.begin, x.end, y.begin, soft, 0.6)
	d.line(x.begin, y.begin, x.begin, y.end, soft, 0.6)
	d.text((x.begin+x.end)/2, height-12, "middle", soft, l.XLabel)
	middle := (y.begin + y.end) / 2
	d.text(14, middle, "middle", soft, l.YLabel, fmt.Sprintf(` transform="rotate(-90 14 %g)"`, middle))
}

// drawNames writes the names of lines to the right of x, in the order in which
// the lines end there and as near to the ends as the text allows. Each has a
// sample of its line, because some are not near.
func drawNames(d *drawing, lines []drawnLine, x float64, y axis) {
	end := func(l drawnLine) float64 { return l.points[len(l.points)-1][1] }
	slices.SortStableFunc(lines, func(a, b drawnLine) int { return cmp.Compare(end(a), end(b)) })
	wanted := make([]float64, len(lines))
	for i, line := range lines {
		wanted[i] = end(line)
	}
	for i, at := range spread(wanted, y.end, y.begin, nameSpacing) {
		line, from := lines[i], x+10
		d.curve([][2]float64{{from, at}, {from + nameSample, at}}, line.style)
		if !line.Plain {
			d.mark(from+nameSample/2, at, line.style)
		}
		weight := ""
		if line.Strong {
			weight = ` font-weight="600"`
		}
		d.text(from+nameSample+6, at, "start", line.color, line.Name, weight)
	}
}

// spread returns places as near as may be to those wanted, which ascend, and at
// least spacing apart. They lie from lo to hi if there is room.
func spread(wanted []float64, lo, hi, spacing float64) []float64 {
	at := slices.Clone(wanted)
	for i := range at {
		at[i] = max(at[i], lo)
		if i > 0 {
			at[i] = max(at[i], at[i-1]+spacing)
		}
	}
	for i := len(at) - 1; i >= 0; i-- {
		limit := hi
		if i < len(at)-1 {
			limit = at[i+1] - spacing
		}
		at[i] = min(at[i], limit)
	}
	return at
}
