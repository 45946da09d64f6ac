package page

import (
	"slices"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// lineNames writes the names of lines to the right of the plot, in the order in
// which the lines end there and as near to the ends as the text allows. Each has
// a sample of its line, because some are not near.
type lineNames struct{ all []lineName }

type lineName struct {
	text   string
	strong bool
	end    plotter.XY
	line   draw.LineStyle
	glyph  draw.GlyphStyle
}

const (
	nameStrip   = 140 // points to the right of the plot that names have
	nameSpacing = 16  // points from one name to the next
	nameSize    = 11
	nameGap     = 10 // points from the plot to the sample
	nameSample  = 22 // points that the sample is long
)

// Plot is called with the canvas of the plot proper; names are beside it.
func (n *lineNames) Plot(c draw.Canvas, p *plot.Plot) {
	_, y := p.Transforms(&c)
	slices.SortStableFunc(n.all, func(a, b lineName) int { return int(y(a.end.Y)*16) - int(y(b.end.Y)*16) })
	wanted := make([]vg.Length, len(n.all))
	for i, name := range n.all {
		wanted[i] = y(name.end.Y)
	}
	for i, at := range spread(wanted, c.Min.Y, c.Max.Y, nameSpacing) {
		n.all[i].draw(&c, at)
	}
}

func (n lineName) draw(c *draw.Canvas, y vg.Length) {
	x := c.Max.X + nameGap
	c.StrokeLine2(n.line, x, y, x+nameSample, y)
	if n.glyph.Shape != nil {
		// Not by c.DrawGlyph, which draws nothing outside of c.
		n.glyph.Shape.DrawGlyph(c, n.glyph, vg.Point{X: x + nameSample/2, Y: y})
	}
	f := textFont(nameSize)
	if n.strong {
		f.Weight = xfont.WeightSemiBold
	}
	style := text.Style{Color: n.line.Color, Font: f, YAlign: text.YCenter, Handler: text.Plain{Fonts: font.DefaultCache}}
	c.FillText(style, vg.Point{X: x + nameSample + 6, Y: y}, n.text)
}

// spread returns places as near as may be to those wanted, which ascend, and at
// least spacing apart. They lie from lo to hi if there is room.
func spread(wanted []vg.Length, lo, hi, spacing vg.Length) []vg.Length {
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
