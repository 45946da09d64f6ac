package page

import (
	"fmt"
	"math"
	"unicode/utf8"
)

// Bars is a plot of horizontal bars, the first on top, each with its value
// beside it.
type Bars struct {
	Title, Caption string
	XLabel         string
	Bars           []Bar
}

// A Bar is a value with a name. Note is written after the value. From Low to
// High is where the value may lie, if High is not 0. Strong is what the plot is
// about.
type Bar struct {
	Name      string
	Value     float64
	Low, High float64
	Note      string
	Strong    bool
}

const barHeight = 26

// Plot draws b. It fails if there is nothing to draw.
func (b Bars) Plot() (Plot, error) {
	if len(b.Bars) == 0 {
		return Plot{}, fmt.Errorf("page: plot %q: there are no bars", b.Title)
	}
	name, value, most := 0, 0, 0.0
	for _, bar := range b.Bars {
		name = max(name, utf8.RuneCountInString(bar.Name))
		value = max(value, utf8.RuneCountInString(bar.value()))
		most = max(most, bar.Value, bar.High)
	}
	if most <= 0 {
		most = 1
	}
	bottom := float64(topMargin + len(b.Bars)*barHeight)
	x := axis{0, most, float64(name)*charSize + 16, width - float64(value)*charSize - 16, false}
	d := newDrawing(bottom + bottomMargin)
	for _, t := range x.ticks() {
		d.line(x.at(t.At), bottom, x.at(t.At), bottom+4, soft, 0.6)
		d.text(x.at(t.At), bottom+13, "middle", ink, t.Label)
	}
	d.line(x.begin, bottom, x.end, bottom, soft, 0.6)
	d.text((x.begin+x.end)/2, bottom+bottomMargin-12, "middle", soft, b.XLabel)
	for i, bar := range b.Bars {
		bar.draw(d, x, topMargin+(float64(i)+0.5)*barHeight)
	}
	return Plot{Title: b.Title, Caption: b.Caption, SVG: d.finish()}, nil
}

func (b Bar) draw(d *drawing, x axis, y float64) {
	color := "#9ca0a4"
	if b.Strong {
		color = strong
	}
	const half = barHeight * 0.36
	end := x.at(max(0, b.Value))
	d.rect(x.begin, y-half, end-x.begin, 2*half, color)
	if b.High > 0 {
		lo, hi := x.at(max(0, b.Low)), x.at(b.High)
		for _, stroke := range []style{{color: "#fff", width: 3.5}, {color: ink, width: 1.2}} { // the first, so that it is seen on any bar
			d.line(lo, y, hi, y, stroke.color, stroke.width)
			d.line(lo, y-half/2, lo, y+half/2, stroke.color, stroke.width)
			d.line(hi, y-half/2, hi, y+half/2, stroke.color, stroke.width)
		}
		end = max(end, hi)
	}
	d.text(x.begin-6, y, "end", ink, b.Name)
	d.text(end+6, y, "start", ink, b.value())
}

// value is what is written beside the bar.
func (b Bar) value() string {
	unit := 10.0
	if math.Abs(b.Value) < 10 {
		unit = 100
	}
	return quantity(math.Round(b.Value*unit)/unit) + b.Note
}
