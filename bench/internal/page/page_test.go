package page

import (
	"bytes"
	"encoding/xml"
	"slices"
	"strings"
	"testing"

	"github.com/idlewheel/idlewheel/bench/internal/table"
)

func example() Lines {
	return Lines{
		Title: "Cost", XLabel: "connections", YLabel: "ns", LogX: true, LogY: true,
		Series: []Series{
			{Name: "ours", X: []float64{1e3, 1e6}, Y: []float64{1, 20}, Strong: true},
			{Name: "theirs & co", X: []float64{1e3, 1e4, 1e6}, Y: []float64{50, 0, 300}},
			{Name: "absent"},
		},
	}
}

// wantSVG checks that a drawing is well formed, and fits to inside of HTML.
func wantSVG(t *testing.T, svg string) {
	t.Helper()
	if !strings.HasPrefix(svg, "<svg") || !strings.Contains(svg, "viewBox") {
		t.Errorf("begins with %.40q", svg)
	}
	if err := xml.Unmarshal([]byte(svg), new(struct {
		XMLName xml.Name `xml:"http://www.w3.org/2000/svg svg"`
	})); err != nil {
		t.Error(err)
	}
	if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
		t.Error("draws at a place that is none")
	}
}

func TestLines(t *testing.T) {
	p, err := example().Plot()
	if err != nil {
		t.Fatal(err)
	}
	svg := p.SVG
	wantSVG(t, svg)
	for _, want := range []string{">ours<", ">theirs &amp; co<", ">connections<", ">1k<", ">1M<"} {
		if !strings.Contains(svg, want) {
			t.Errorf("%s is missing", want)
		}
	}
	if strings.Contains(svg, "absent") {
		t.Error("a series without points is drawn")
	}
}

func TestLinesOfOnePoint(t *testing.T) {
	p, err := Lines{Series: []Series{{Name: "a", X: []float64{5}, Y: []float64{7}}}}.Plot()
	if err != nil {
		t.Fatal(err)
	}
	wantSVG(t, p.SVG)
}

func TestNothingToDraw(t *testing.T) {
	l := Lines{Title: "Cost", LogY: true, Series: []Series{{Name: "a", X: []float64{1}, Y: []float64{0}}}}
	if _, err := l.Plot(); err == nil || !strings.Contains(err.Error(), `"Cost"`) {
		t.Errorf("got %v", err)
	}
	if _, err := (Bars{Title: "Memory"}).Plot(); err == nil || !strings.Contains(err.Error(), `"Memory"`) {
		t.Errorf("got %v", err)
	}
}

func TestBars(t *testing.T) {
	for _, value := range []float64{0, 96} {
		p, err := Bars{Title: "Memory", XLabel: "bytes", Bars: []Bar{{Name: "ours", Value: value, Low: value / 3, High: value * 2, Strong: true}, {Name: "theirs", Value: value / 2}}}.Plot()
		if err != nil {
			t.Fatal(err)
		}
		wantSVG(t, p.SVG)
	}
}

func TestSpread(t *testing.T) {
	for _, c := range []struct{ wanted, want []float64 }{
		{[]float64{10, 50, 90}, []float64{10, 50, 90}},
		{[]float64{50, 50, 51}, []float64{50, 60, 70}},
		{[]float64{98, 99, 100}, []float64{80, 90, 100}},
		{[]float64{-5, 1}, []float64{0, 10}},
	} {
		if got := spread(c.wanted, 0, 100, 10); !slices.Equal(got, c.want) {
			t.Errorf("spread(%v) = %v, want %v", c.wanted, got, c.want)
		}
	}
}

func TestTicks(t *testing.T) {
	var labels []string
	for _, tick := range decades(1e3, 1e7) {
		if tick.Label != "" {
			labels = append(labels, tick.Label)
		}
	}
	if want := []string{"1k", "10k", "100k", "1M", "10M"}; !slices.Equal(labels, want) {
		t.Errorf("decades: %v, want %v", labels, want)
	}
	labels = nil
	for _, tick := range linear(0, 2.9) {
		labels = append(labels, tick.Label)
	}
	if want := []string{"0", "0.5", "1", "1.5", "2", "2.5"}; !slices.Equal(labels, want) {
		t.Errorf("linear: %v, want %v", labels, want)
	}
	if n := len(linear(0, 0)); n > 2 {
		t.Errorf("an empty axis has %d ticks", n)
	}
}

func TestPage(t *testing.T) {
	plot, err := example().Plot()
	if err != nil {
		t.Fatal(err)
	}
	p := Page{
		Title: "a <b>", Facts: []Fact{{"machine", "x & y"}}, Plots: []Plot{plot},
		Tables: []table.Table{{
			Title: "reset", Columns: table.Columns("contender", "ns"),
			Rows: []table.Row{{Cells: []string{"ours", "1"}, Strong: true}, {Cells: []string{"theirs", "2"}, Weak: true}},
		}},
	}
	var out bytes.Buffer
	if err := p.Write(&out); err != nil {
		t.Fatal(err)
	}
	html := out.String()
	for _, want := range []string{"<h1>a &lt;b&gt;</h1>", "x &amp; y", "<svg ", `<tr class="strong"><td class="text">ours</td><td>1</td></tr>`, `<tr class="weak">`} {
		if !strings.Contains(html, want) {
			t.Errorf("%s is missing", want)
		}
	}
	for _, never := range []string{"<script", "<link", "src=", "url(", "@import"} {
		if strings.Contains(html, never) {
			t.Errorf("%s could need the network", never)
		}
	}
}
