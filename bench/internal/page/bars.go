package page

import (
	"fmt"
	"image/color"
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

// A Bar is a value with a name. Note is written after the value. From Low to
// High is what it was seen to be, if High is not 0. Strong is what the plot is
// about.
type Bar struct {
	Name      string
	Value     float64
	Low, High float64
	Note      string
	Strong    bool
}

const (
	barStrip   = 130 // points to the right of the longest bar, for its value, or more
	barHeight  = 26
	barPadding = 70 // points for the axis
	valueGap   = 6  // points from the bar to its value

	// wider is by how much a reader's font may be wider than that of textFont.
	wider = 1.2
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
		p.X.Max = max(p.X.Max, bar.Value, bar.High)
	}
	p.X.Min, p.Y.Min, p.Y.Max = 0, -0.6, float64(len(b.Bars))-0.4
	if p.X.Max <= 0 {
		p.X.Max = 1
	}
	p.X.Tick.Marker, p.Y.Tick.Marker = linear{p.X.Max}, names
	p.Y.Tick.Length, p.Y.LineStyle.Width = 0, 0
	p.Add(drawnBars(b.Bars))
	strip, padding := vg.Length(barStrip), p.Y.Padding
	for _, bar := range b.Bars {
		p.Y.Padding = max(p.Y.Padding, padding+p.Y.Tick.Label.Width(bar.Name)*(wider-1)) // names begin where they are told, and end later
		strip = max(strip, valueGap+valueStyle().Width(bar.value())*wider)
	}
	svg, err := renderSized(p, strip, vg.Length(len(b.Bars)*barHeight+barPadding))
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
		if bar.High > 0 {
			right = max(right, drawSpread(c, x(bar.Low), x(bar.High), at, half/2))
		}
		c.FillText(valueStyle(), vg.Point{X: right + valueGap, Y: at}, bar.value())
	}
}

func valueStyle() text.Style {
	return text.Style{Color: ink(), Font: textFont(nameSize), YAlign: text.YCenter, Handler: text.Plain{Fonts: font.DefaultCache}}
}

// value is what is written beside the bar.
func (b Bar) value() string { return rounded(b.Value) + b.Note }

// drawSpread draws a line from lo to hi with ends as high as twice half, and
// returns where it ends.
func drawSpread(c draw.Canvas, lo, hi, at, half vg.Length) vg.Length {
	for _, line := range []draw.LineStyle{
		{Color: color.White, Width: vg.Points(3.5)}, // so that it is seen on any bar
		{Color: ink(), Width: vg.Points(1.2)},
	} {
		c.StrokeLine2(line, lo, at, hi, at)
		for _, end := range []vg.Length{lo, hi} {
			c.StrokeLine2(line, end, at-half, end, at+half)
		}
	}
	return hi
}

// rounded writes a value with as many digits as anybody looks at.
func rounded(v float64) string {
	unit := 10.0
	if math.Abs(v) < 10 {
		unit = 100
	}
	return quantity(math.Round(v*unit) / unit)
}
