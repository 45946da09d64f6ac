package page

import (
	"fmt"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Lines is a plot of lines, each with its name beside its end.
type Lines struct {
	Title, Caption string
	XLabel, YLabel string
	LogX, LogY     bool
	XTicks         []Tick // nil for round numbers
	Series         []Series
}

// A Tick is a place on an axis that has a name.
type Tick struct {
	At    float64
	Label string
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

// Plot draws l. It fails if there is nothing to draw.
func (l Lines) Plot() (Plot, error) {
	p := newPlot(l.XLabel, l.YLabel)
	names, err := l.draw(p)
	if err != nil {
		return Plot{}, fmt.Errorf("page: plot %q: %w", l.Title, err)
	}
	l.scale(p)
	p.Add(names)
	svg, err := render(p, nameStrip)
	if err != nil {
		return Plot{}, fmt.Errorf("page: plot %q: %w", l.Title, err)
	}
	return Plot{Title: l.Title, Caption: l.Caption, SVG: svg}, nil
}

// draw adds the lines, the strong ones last, so that they lie on top.
func (l Lines) draw(p *plot.Plot) (*lineNames, error) {
	p.Add(&rules{})
	names := &lineNames{}
	weak := 0
	var strong []func()
	for _, s := range l.Series {
		st, width, size := strongStyle(), vg.Points(3.5), vg.Points(4.5)
		if !s.Strong {
			st, width, size = styleOf(weak), vg.Points(1.5), vg.Points(3.2)
			weak++ // also if it is not drawn: its style is its own
		}
		points := l.visible(s)
		if len(points) == 0 {
			continue
		}
		line, marks, err := plotter.NewLinePoints(points)
		if err != nil {
			return nil, fmt.Errorf("series %q: %w", s.Name, err)
		}
		line.Color, line.Width, line.Dashes = st.color, width, st.dashes
		marks.Color, marks.Shape, marks.Radius = st.color, st.glyph, size
		add := func() {
			p.Add(line)
			if !s.Plain {
				p.Add(marks)
			}
		}
		if s.Strong {
			strong = append(strong, add)
		} else {
			add()
		}
		n := lineName{text: s.Name, strong: s.Strong, end: points[len(points)-1], line: line.LineStyle, glyph: marks.GlyphStyle}
		if s.Plain {
			n.glyph.Shape = nil
		}
		names.all = append(names.all, n)
	}
	for _, add := range strong {
		add()
	}
	if len(names.all) == 0 {
		return nil, fmt.Errorf("none of its %d series has a point that can be drawn", len(l.Series))
	}
	return names, nil
}

func (l Lines) visible(s Series) plotter.XYs {
	var points plotter.XYs
	for i := range s.X {
		x, y := s.X[i], s.Y[i]
		if l.LogX && x <= 0 || l.LogY && y <= 0 || math.IsNaN(x+y) || math.IsInf(x+y, 0) {
			continue
		}
		points = append(points, plotter.XY{X: x, Y: y})
	}
	return points
}

// scale sets up the axes, after the lines have set their ranges.
func (l Lines) scale(p *plot.Plot) {
	p.X.Tick.Marker = linear{p.X.Max}
	p.Y.Tick.Marker = linear{math.Inf(1)}
	if l.LogX {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, decades{p.X.Max}
	}
	if l.LogY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, decades{math.Inf(1)}
		p.Y.Min, p.Y.Max = p.Y.Min/1.3, p.Y.Max*1.3
	} else {
		p.Y.Min, p.Y.Max = min(0, p.Y.Min), p.Y.Max*1.05
	}
	if l.XTicks != nil {
		var at fixed
		for _, t := range l.XTicks {
			at = append(at, plot.Tick{Value: t.At, Label: t.Label})
		}
		p.X.Tick.Marker = at
	}
	if p.X.Min == p.X.Max { // one point each: still a range
		p.X.Min, p.X.Max = p.X.Min*0.9, p.X.Max*1.1
	}
}

// rules are thin horizontal lines at the labelled ticks.
type rules struct{}

func (*rules) Plot(c draw.Canvas, p *plot.Plot) {
	_, y := p.Transforms(&c)
	style := draw.LineStyle{Color: pale(), Width: vg.Points(0.8)}
	for _, t := range p.Y.Tick.Marker.Ticks(p.Y.Min, p.Y.Max) {
		if !t.IsMinor() {
			c.StrokeLine2(style, c.Min.X, y(t.Value), c.Max.X, y(t.Value))
		}
	}
}
