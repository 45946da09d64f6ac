package main

import (
	"fmt"

	"github.com/idlewheel/idlewheel/bench/internal/page"
)

// us is the variant that the page is about.
const us = "ours"

// modules are the paths of the servers that are modules.
func modules() []string {
	return []string{"github.com/panjf2000/gnet/v2", "github.com/valyala/fasthttp"}
}

// page returns the result as a page with plots.
func (r report) page() page.Page {
	p := page.Page{
		Title: "What timeouts cost a whole server",
		Intro: "The same server bare, with its own timeouts, and with idlewheel's, under the same load over loopback. " +
			"The variants take turns on one core, the load comes from another; a ratio is the median of those within a round. " +
			"Where the machine is shared, CPU time is the figure that moves less.",
	}
	for _, f := range r.facts() {
		p.Facts = append(p.Facts, page.Fact{Name: f[0], Value: f[1]})
	}
	for _, s := range r.Servers {
		if s.Stream != nil {
			p.Facts = append(p.Facts, page.Fact{Name: s.Server, Value: s.Stream.text()})
		}
		for _, bars := range []page.Bars{s.throughput(), s.cpu()} {
			if plot, err := bars.Plot(); err == nil { // else it has no variant
				p.Plots = append(p.Plots, plot)
			}
		}
		p.Tables = append(p.Tables, s.table())
	}
	return p
}

// facts are what a reader must know of a run, as names and values.
func (r report) facts() [][2]string {
	return append(r.Machine.Facts("servers"), [2]string{"run", fmt.Sprintf("%s; %d connections, %d rounds, in each of which a variant has %v; messages of echo servers have %d bytes",
		r.Machine.Date, r.cfg.conns, r.cfg.rounds, r.cfg.duration, r.cfg.size)})
}

// throughput is how many of the bare server's requests each variant answers.
func (r result) throughput() page.Bars {
	b := page.Bars{
		Title: r.Server + ": requests a second", XLabel: "% of the bare server's",
		Caption: "More is better. The line is from the least to the greatest of the rounds.",
	}
	for i, v := range r.Variants {
		s := v.RatioSpread
		bar := page.Bar{Name: v.Name, Strong: v.Name == us, Value: 100 * s.Median, Note: " %"}
		if i > 0 { // the first is bare, and always what it is itself
			bar.Low, bar.High = 100*s.Min, 100*s.Max
			bar.Note = fmt.Sprintf(" %% (%.1f to %.1f)", bar.Low, bar.High)
		}
		b.Bars = append(b.Bars, bar)
	}
	return b
}

// cpu is what a request costs the server.
func (r result) cpu() page.Bars {
	b := page.Bars{
		Title: r.Server + ": CPU time a request", XLabel: "µs of the server's process",
		Caption: "Less is better. The line is from the least to the greatest of the rounds.",
	}
	for _, v := range r.Variants {
		s := v.CPUPerOp
		b.Bars = append(b.Bars, page.Bar{
			Name: v.Name, Strong: v.Name == us, Value: s.Median / 1000, Low: s.Min / 1000, High: s.Max / 1000,
			Note: fmt.Sprintf(" µs (%.2f to %.2f)", s.Min/1000, s.Max/1000),
		})
	}
	return b
}

// table is what the terminal shows.
func (r result) table() page.Table {
	t := page.Table{Title: r.title()}
	for i, name := range cellNames() {
		t.Columns = append(t.Columns, page.Column{Name: name, Text: i == 0})
	}
	for _, v := range r.Variants {
		t.Rows = append(t.Rows, page.Row{Cells: v.cells(), Strong: v.Name == us})
	}
	return t
}
