package page

import (
	"fmt"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Bars is a plot of horizontal bars, the first on top, each with its value
// beside it.
type Bars struct {
	Title, Caption string
	XLabel         string
	Bars           []Bar
}

// A Bar is a value with a name. Note is written after the value. Strong is what
// the plot is about.
type Bar struct {
	Name   string
	Value  float64
	Note   string
	Strong bool
}

const (
	barStrip   = 130 // points to the right of the longest bar, for its value
	barHeight  = 26
	barPadding = 70 // points for the axis
)

// Plot draws b. It fails if there is nothing to draw.
func (b Bars) Plot() (Plot, error) {
	if len(b.Bars) == 0 {
		return Plot{}, fmt.Errorf("page: plot %q: there are no bars", b.Title)
	}
	p := newPlot(b.XLabel, "")
	var names fixed
	for i, bar := range b.Bars {
		row := float64(len(b.Bars) - 1 - i)
		names = append(names, plot.Tick{Value: row, Label: bar.Name})
		p.X.Max = math.Max(p.X.Max, bar.Value)
	}
	p.X.Min, p.Y.Min, p.Y.Max = 0, -0.6, float64(len(b.Bars))-0.4
	if p.X.Max <= 0 {
		p.X.Max = 1
	}
	p.X.Tick.Marker, p.Y.Tick.Marker = linear{p.X.Max}, names
	p.Y.Tick.Length, p.Y.LineStyle.Width = 0, 0
	p.Add(drawnBars(b.Bars))
	svg, err := renderSized(p, barStrip, vg.Length(len(b.Bars)*barHeight+barPadding))
	if err != nil {
		return Plot{}, fmt.Errorf("page: plot %q: %w", b.Title, err)
	}
	return Plot{Title: b.Title, Caption: b.Caption, SVG: svg}, nil
}

// drawnBars is a plot.Plotter of bars.
type drawnBars []Bar

func (b drawnBars) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for i, bar := range b {
		at := y(float64(len(b) - 1 - i))
		fill := styleOf(4).color
		fill.A = 0x80
		if bar.Strong {
			fill = strongStyle().color
		}
		half := vg.Length(barHeight) * 0.36
		left, right := x(0), x(max(0, bar.Value))
		c.FillPolygon(fill, []vg.Point{{X: left, Y: at - half}, {X: right, Y: at - half}, {X: right, Y: at + half}, {X: left, Y: at + half}})
		style := text.Style{Color: ink(), Font: textFont(nameSize), YAlign: text.YCenter, Handler: text.Plain{Fonts: font.DefaultCache}}
		c.FillText(style, vg.Point{X: right + 6, Y: at}, quantity(math.Round(bar.Value*10)/10)+bar.Note)
	}
}
