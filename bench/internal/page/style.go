package page

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// The size of a plot. The page scales it to the width that there is.
const (
	width  = 10 * vg.Inch
	height = 5.6 * vg.Inch
)

func ink() color.Color  { return color.NRGBA{0x1d, 0x24, 0x30, 0xff} }
func soft() color.Color { return color.NRGBA{0x5b, 0x66, 0x75, 0xff} }
func pale() color.Color { return color.NRGBA{0xe3, 0xe7, 0xec, 0xff} }

// A style tells one line from the others: by color, and where colors run out,
// or cannot be told apart, by dashes and glyphs.
type style struct {
	color  color.NRGBA
	dashes []vg.Length
	glyph  draw.GlyphDrawer
}

// styleOf returns the style of the i-th line that is not strong. The colors are
// those of Okabe and Ito that have enough contrast to white, some darkened;
// blue is left to what is strong.
func styleOf(i int) style {
	colors := []color.NRGBA{
		{0xd5, 0x5e, 0x00, 0xff}, // vermillion
		{0x00, 0x8c, 0x66, 0xff}, // green
		{0xb8, 0x5c, 0x93, 0xff}, // purple
		{0xb8, 0x86, 0x00, 0xff}, // orange
		{0x3a, 0x3f, 0x47, 0xff}, // black
		{0x3b, 0x9b, 0xc9, 0xff}, // sky
	}
	dashes := [][]vg.Length{nil, {vg.Points(5), vg.Points(3)}, {vg.Points(1.5), vg.Points(2.5)}}
	glyphs := []draw.GlyphDrawer{
		draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.RingGlyph{}, draw.PlusGlyph{}, draw.CrossGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{},
	}
	return style{colors[i%len(colors)], dashes[i/len(colors)%len(dashes)], glyphs[i%len(glyphs)]}
}

func strongStyle() style { return style{color.NRGBA{0x0b, 0x5c, 0xad, 0xff}, nil, draw.CircleGlyph{}} }

// textFont is what text is measured in. The page shows it in the reader's
// sans-serif font, of about the same width.
func textFont(size vg.Length) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
}

// newPlot returns a plot without anything in it.
func newPlot(xLabel, yLabel string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = color.White
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Label.TextStyle.Font = textFont(vg.Points(12))
		a.Label.TextStyle.Color = soft()
		a.Tick.Label.Font = textFont(vg.Points(11))
		a.Tick.Label.Color = ink()
		a.Tick.Color, a.Color = soft(), soft()
		a.Padding = vg.Points(4)
	}
	p.X.Label.Text, p.Y.Label.Text = xLabel, yLabel
	return p
}
