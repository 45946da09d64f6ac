package page

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestPlot(t *testing.T) {
	for _, log := range []bool{true, false} {
		svg, err := Plot{Log: log, XLabel: "connections", Series: []Series{
			{Name: "ours", X: []float64{1e3, 1e6}, Y: []float64{1, 20}, Strong: true},
			{Name: "theirs & co", X: []float64{1e3, 1e6}, Y: []float64{50, 300}},
			{Name: "absent"},
		}}.SVG()
		if err != nil {
			t.Fatal(err)
		}
		if err := xml.Unmarshal([]byte(svg), new(struct {
			XMLName xml.Name `xml:"http://www.w3.org/2000/svg svg"`
		})); err != nil {
			t.Error(err)
		}
		for _, want := range []string{">ours<", ">theirs &amp; co<", ">connections<", ">1M<", ">100<"} {
			if !strings.Contains(svg, want) {
				t.Errorf("%s is missing", want)
			}
		}
		for _, never := range []string{"absent", "NaN", "Inf"} {
			if strings.Contains(svg, never) {
				t.Errorf("there is %s", never)
			}
		}
	}
}

func TestPage(t *testing.T) {
	var out strings.Builder
	point := Plot{Title: "a point", Series: []Series{{Name: "a", X: []float64{5}, Y: []float64{7}}}}
	if err := Write(&out, "a <b>", func(w io.Writer) { fmt.Fprint(w, "x & y") }, point, Plot{Title: "empty"}); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	if !strings.Contains(text, "<h1>a &lt;b&gt;</h1>") || !strings.Contains(text, "<pre>x &amp; y</pre>") || strings.Count(text, "<svg") != 1 || strings.Contains(text, "empty") {
		t.Error(text)
	}
}
