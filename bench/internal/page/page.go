// Package page writes results of the benchmarks as one HTML page that needs
// nothing else: no network, no script, no font.
//
//	p := page.Page{Title: "peers", Facts: facts, Plots: plots, Tables: tables}
//	err := p.Write(w)
//
// A plot is made by Lines.Plot or Bars.Plot, as SVG. The package uses neither a
// plotting library nor templates: they would take most of the time in which a
// program is built.
package page

import (
	_ "embed"
	"fmt"
	"html"
	"io"
	"strings"

	"github.com/idlewheel/idlewheel/bench/internal/table"
)

// A Page is a title, what a reader has to know, plots, and tables below them.
type Page struct {
	Title  string
	Intro  string
	Facts  []Fact
	Plots  []Plot
	Tables []table.Table
}

// A Fact is something about the run, such as the machine.
type Fact struct{ Name, Value string }

// A Plot is a picture with what it shows.
type Plot struct {
	Title   string
	Caption string
	SVG     string // may be a file of its own, too
}

// Add adds the plot that draw returns, if it can be drawn.
func (p *Page) Add(draw func() (Plot, error)) {
	if plot, err := draw(); err == nil { // else the run has nothing of the kind
		p.Plots = append(p.Plots, plot)
	}
}

//go:embed page.css
var css string

// Write writes the page as HTML.
func (p Page) Write(w io.Writer) error {
	var out strings.Builder
	put := func(format string, texts ...any) {
		for i, text := range texts {
			texts[i] = html.EscapeString(text.(string))
		}
		fmt.Fprintf(&out, format, texts...)
	}
	put("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n")
	put("<title>%s</title>\n<style>\n", p.Title)
	out.WriteString(css)
	put("</style>\n</head>\n<body>\n<h1>%s</h1>\n<p>%s</p>\n<dl>\n", p.Title, p.Intro)
	for _, f := range p.Facts {
		put("<dt>%s</dt><dd>%s</dd>\n", f.Name, f.Value)
	}
	put("</dl>\n")
	for _, plot := range p.Plots {
		put("<section>\n<h2>%s</h2>\n<p>%s</p>\n<figure>", plot.Title, plot.Caption)
		out.WriteString(plot.SVG)
		put("</figure>\n</section>\n")
	}
	for _, t := range p.Tables {
		putTable(put, t)
	}
	put("</body>\n</html>\n")
	_, err := io.WriteString(w, out.String())
	return err
}

func putTable(put func(format string, texts ...any), t table.Table) {
	class := func(c table.Column) string {
		if c.Text {
			return ` class="text"`
		}
		return ""
	}
	put("<section>\n<h2>%s</h2>\n<p>%s</p>\n<div class=\"scroll\"><table>\n<thead><tr>", t.Title, t.Caption)
	for _, c := range t.Columns {
		put("<th"+class(c)+">%s</th>", c.Name)
	}
	put("</tr></thead>\n<tbody>\n")
	for _, r := range t.Rows {
		switch {
		case r.Strong:
			put(`<tr class="strong">`)
		case r.Weak:
			put(`<tr class="weak">`)
		default:
			put("<tr>")
		}
		for i, cell := range r.Cells {
			put("<td"+class(t.Columns[i])+">%s</td>", cell)
		}
		put("</tr>\n")
	}
	put("</tbody></table></div>\n</section>\n")
}
