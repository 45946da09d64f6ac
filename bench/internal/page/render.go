package page

import (
	"bytes"
	"fmt"
	"html/template"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// render draws p as SVG, and leaves a strip to the right of it to what p draws
// beside itself.
func render(p *plot.Plot, strip vg.Length) (template.HTML, error) {
	return renderSized(p, strip, height)
}

func renderSized(p *plot.Plot, strip, height vg.Length) (template.HTML, error) {
	canvas := vgsvg.New(width, height)
	p.Draw(draw.Crop(draw.New(canvas), 4, -strip, 4, -8))
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return "", err
	}
	// What comes before is for a file of its own, and not for inside of HTML.
	begin := bytes.Index(out.Bytes(), []byte("<svg"))
	if begin < 0 {
		return "", fmt.Errorf("the drawing of %d bytes has no <svg", out.Len())
	}
	return template.HTML(out.Bytes()[begin:]), nil
}
