package page

import (
	"fmt"
	"html"
	"strings"
)

// The size of a plot. The page scales it to the width that there is.
const (
	width    = 720.0
	height   = 400.0
	textSize = 11.0
	charSize = 6.2 // about as wide as a character of that size
)

const (
	ink    = "#1d2430"
	soft   = "#5b6675"
	pale   = "#e3e7ec"
	strong = "#0b5cad"
)

// A drawing is an SVG in the making. Its origin is the top left corner.
type drawing struct{ strings.Builder }

func newDrawing(height float64) *drawing {
	d := &drawing{}
	d.put(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="system-ui, 'Helvetica Neue', Arial, sans-serif" font-size="%g">`+"\n", width, height, textSize)
	d.put(`<rect width="%g" height="%g" fill="#fff"/>`+"\n", width, height)
	return d
}

func (d *drawing) put(format string, args ...any) { fmt.Fprintf(d, format, args...) }

// finish returns the SVG.
func (d *drawing) finish() string {
	d.put("</svg>\n")
	return d.String()
}

func (d *drawing) line(x1, y1, x2, y2 float64, color string, width float64) {
	d.put(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="%g"/>`+"\n", x1, y1, x2, y2, color, width)
}

func (d *drawing) rect(x, y, w, h float64, color string) {
	d.put(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", x, y, w, h, color)
}

// text writes text whose begin, middle or end, as anchor says, is at x.
func (d *drawing) text(x, y float64, anchor, color, text string, more ...string) {
	d.put(`<text x="%.1f" y="%.1f" dy="0.35em" text-anchor="%s" fill="%s"%s>%s</text>`+"\n",
		x, y, anchor, color, strings.Join(more, ""), html.EscapeString(text))
}

// A style tells one line from the others: by color, and where colors run out, or
// cannot be told apart, by dashes and marks.
type style struct {
	color, dashes, mark string
	width, size         float64
}

// styleOf returns the style of the i-th line that is not strong. The colors are
// those of Okabe and Ito that have enough contrast to white, some darkened;
// blue is left to what is strong.
func styleOf(i int) style {
	colors := []string{"#d55e00", "#008c66", "#b85c93", "#b88600", "#3a3f47", "#3b9bc9"} // vermillion, green, purple, orange, black, sky
	dashes := []string{"", "5 3", "1.5 2.5"}
	marks := []string{"M-3-3h6v6h-6z", "M0-3.5L3 2.5H-3z", "M-3 0H3M0-3V3", "M-3-3L3 3M-3 3L3-3", "M0-4L3 0L0 4L-3 0z"} // square, triangle, plus, cross, diamond
	return style{colors[i%len(colors)], dashes[i/len(colors)%len(dashes)], marks[i%len(marks)], 1.5, 1}
}

func strongStyle() style { return style{strong, "", "M-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0z", 3.5, 1.5} }

// curve draws a line through points.
func (d *drawing) curve(points [][2]float64, s style) {
	d.put(`<polyline fill="none" stroke="%s" stroke-width="%g" stroke-dasharray="%s" points="`, s.color, s.width, s.dashes)
	for _, p := range points {
		d.put("%.1f,%.1f ", p[0], p[1])
	}
	d.put(`"/>` + "\n")
}

// mark draws the mark of a style.
func (d *drawing) mark(x, y float64, s style) {
	d.put(`<path transform="translate(%.1f %.1f) scale(%g)" d="%s" fill="%s" stroke="%s"/>`+"\n", x, y, s.size, s.mark, s.color, s.color)
}
