// Package page writes results of the benchmarks as one HTML page that needs
// nothing else: no network, no script, no font.
//
//	p := page.Page{Title: "peers", Facts: facts, Plots: plots, Tables: tables}
//	err := p.Write(w)
//
// A plot is made by Lines.Plot or Bars.Plot, as SVG.
package page

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
)

// A Page is a title, what a reader has to know, plots, and tables below them.
type Page struct {
	Title  string
	Intro  string
	Facts  []Fact
	Plots  []Plot
	Tables []Table
}

// A Fact is something about the run, such as the machine.
type Fact struct{ Name, Value string }

// A Plot is a picture with what it shows.
type Plot struct {
	Title   string
	Caption string
	SVG     template.HTML
}

// File returns the plot as a file of its own, of the type SVG.
func (p Plot) File() []byte {
	const fonts = `<style>text { font-family: system-ui, "Helvetica Neue", Arial, sans-serif !important; }</style>`
	begin, rest, _ := strings.Cut(string(p.SVG), ">")
	return []byte(begin + ">" + fonts + rest)
}

// A Table has a row for each of what is compared.
type Table struct {
	Title   string
	Caption string
	Columns []Column
	Rows    []Row
}

// A Column is what the cells below it are.
type Column struct {
	Name string
	Text bool // to the left, not a number
}

// A Row is a line of a table. Strong is the one that the page is about; Weak
// has nothing to show, or not what it should.
type Row struct {
	Cells        []string
	Strong, Weak bool
}

//go:embed page.html
var layout string

// Write writes the page as HTML.
func (p Page) Write(w io.Writer) error {
	t, err := template.New("page").Parse(layout)
	if err != nil {
		return fmt.Errorf("page: parsing the layout: %w", err)
	}
	if err := t.Execute(w, p); err != nil {
		return fmt.Errorf("page: writing %q: %w", p.Title, err)
	}
	return nil
}
