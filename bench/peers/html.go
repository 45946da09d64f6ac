package main

import (
	"fmt"
	"slices"

	"github.com/idlewheel/idlewheel/bench/internal/page"
	"github.com/idlewheel/idlewheel/bench/internal/table"
	"github.com/idlewheel/idlewheel/bench/peers/contender"
)

// us is the contender that the page is about.
const us = "idlewheel"

// page returns the result as a page with plots.
func (r *report) page() page.Page {
	p := page.Page{
		Title: "Ways to notice that a connection has gone stale",
		Intro: "idlewheel and its peers in the same workloads, side by side. " + legend,
	}
	for _, f := range r.facts() {
		p.Facts = append(p.Facts, page.Fact{Name: f[0], Value: f[1]})
	}
	for _, draw := range []func() (page.Plot, error){r.costPlot, r.latenessPlot, r.busyPlot, r.memoryPlot, r.collectPlot} {
		p.Add(draw)
	}
	p.Tables = append(p.Tables, r.contendersTable())
	for _, rows := range r.groups() {
		p.Tables = append(p.Tables, tableOf(rows))
	}
	return p
}

func (r *report) contendersTable() table.Table {
	t := table.Table{Title: "The contenders", Columns: []table.Column{{Name: "name", Text: true}, {Name: "what it is", Text: true}}}
	for _, k := range contender.All() {
		t.Rows = append(t.Rows, table.Row{Cells: []string{k.Name, k.About()}, Strong: k.Name == us})
	}
	return t
}

// costPlot is the time of a reset against the number of connections.
func (r *report) costPlot() (page.Plot, error) {
	series := make(map[string]*page.Series)
	for _, ct := range r.contests {
		n := ct.work.conns
		if r.cost(n) != ct.work.name || ct.conns != n {
			continue // a contender with fewer connections than the others is not drawn
		}
		for _, row := range r.Rows {
			if row.Workload == ct.work.name && row.Contender == ct.kind.Name && row.Median != nil {
				s := series[row.Contender]
				if s == nil {
					s = &page.Series{Name: row.Contender, Strong: row.Contender == us}
					series[row.Contender] = s
				}
				s.X, s.Y = append(s.X, float64(n)), append(s.Y, *row.Median)
			}
		}
	}
	return page.Lines{
		Title:   "Cost of a reset",
		Caption: "What noting an activity of a random connection costs, by how many connections there are. Beyond the cache it is the memory that takes the time.",
		XLabel:  "connections", YLabel: "ns a reset", LogX: true, LogY: true,
		Series: r.inOrder(series),
	}.Plot()
}

// cost returns the name of the workload of random resets among n.
func (r *report) cost(n int) string { return resetRandom(n).name }

// inOrder returns series in the order of the contenders, so that each has the
// same color in every plot.
func (r *report) inOrder(series map[string]*page.Series) []page.Series {
	var all []page.Series
	for _, k := range contender.All() {
		if s := series[k.Name]; s != nil {
			all = append(all, *s)
		} else {
			all = append(all, page.Series{Name: k.Name}) // not drawn, but its color is its own
		}
	}
	return all
}

// spreads returns what the outcomes of going stale have, contender by contender.
func (r *report) spreads(get func(o outcome) (x, y []float64)) map[string]*page.Series {
	series := make(map[string]*page.Series)
	for _, ct := range r.contests {
		if ct.work.name != "stale-spread" || len(ct.outcomes) == 0 {
			continue
		}
		x, y := get(ct.outcomes[0])
		series[ct.kind.Name] = &page.Series{Name: ct.kind.Name + faults(ct.outcomes[0]), Strong: ct.kind.Name == us, X: x, Y: y}
	}
	return series
}

// faults are what a name in a plot has to be followed by, for it to be fair to
// the others.
func faults(o outcome) string {
	switch {
	case o.Early > 0 && o.Lost > 0:
		return " (early, lost)"
	case o.Early > 0:
		return " (early)"
	case o.Lost > 0:
		return " (lost)"
	}
	return ""
}

// leastDrawn is the lateness, in ms, below which a plot shows no difference.
const leastDrawn = 0.01

func (r *report) latenessPlot() (page.Plot, error) {
	labels := []string{"1 %", "10 %", "25 %", "median", "75 %", "90 %", "99 %", "99.9 %", "99.99 %", "all"}
	var ticks []page.Tick
	for i, label := range labels {
		ticks = append(ticks, page.Tick{At: float64(i), Label: label})
	}
	series := r.spreads(func(o outcome) (x, y []float64) {
		for i, late := range o.Late {
			x, y = append(x, float64(i)), append(y, max(late, leastDrawn))
		}
		return x, y
	})
	return page.Lines{
		Title: "Lateness",
		Caption: fmt.Sprintf("How late so many of the connections, or fewer, expired, of %s that went stale over %v. "+
			"What is early, or late by less than %v ms, lies at the bottom; the table tells which.", short(r.cfg.scale().Crowd), r.cfg.scale().Spread, leastDrawn),
		XLabel: "share of the connections", YLabel: "late by at most, ms", LogY: true, XTicks: ticks,
		Series: r.inOrder(series),
	}.Plot()
}

func (r *report) busyPlot() (page.Plot, error) {
	series := r.spreads(func(o outcome) (x, y []float64) {
		for _, p := range o.Busy {
			x, y = append(x, p.At), append(y, 100*p.Share)
		}
		return x, y
	})
	for _, s := range series {
		s.Plain = true
	}
	return page.Lines{
		Title:   "CPU while connections go stale",
		Caption: fmt.Sprintf("The same %s connections, from the last activity on.", short(r.cfg.scale().Crowd)),
		XLabel:  "seconds", YLabel: "% of a core",
		Series: r.inOrder(series),
	}.Plot()
}

func (r *report) memoryPlot() (page.Plot, error) {
	return r.bars("memory-heap", "Memory of a connection",
		"What timing a connection takes on the heap, with all that a contender needs to tell which it was.", "bytes")
}

func (r *report) collectPlot() (page.Plot, error) {
	name := collect(r.cfg.scale().Heaps[0]).name
	return r.bars(name, "A garbage collection", "CPU time of one, with "+short(r.cfg.scale().Heaps[0])+" connections live.", "ms")
}

// bars draws the rows of a measure.
func (r *report) bars(workload, title, caption, unit string) (page.Plot, error) {
	b := page.Bars{Title: title, Caption: caption, XLabel: unit}
	for _, row := range r.Rows {
		if row.Workload == workload && row.Median != nil {
			b.Bars = append(b.Bars, page.Bar{Name: row.Contender, Value: *row.Median, Note: " " + unit, Strong: row.Contender == us})
		}
	}
	slices.SortStableFunc(b.Bars, func(x, y page.Bar) int { return int(x.Value*100) - int(y.Value*100) })
	return b.Plot()
}
