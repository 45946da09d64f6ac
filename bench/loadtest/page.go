package main

import (
	"fmt"

	"github.com/idlewheel/idlewheel/bench/internal/page"
	"github.com/idlewheel/idlewheel/bench/internal/table"
)

// page returns r as a page with plots.
func (r *report) page() page.Page {
	p := page.Page{Title: fmt.Sprintf("loadtest: %s %s", table.Group(r.Conns), r.cfg.what()), Intro: r.verdict()}
	p.Add(r.latenessPlot)
	p.Add(r.busyPlot)
	p.Add(r.outcomePlot)
	for _, s := range r.sections() {
		t := table.Table{Title: s.title, Caption: s.note, Columns: []table.Column{{Name: "what", Text: true}, {Name: "figure", Text: true}}}
		for _, row := range s.rows {
			t.Add(row[0], row[1])
		}
		p.Tables = append(p.Tables, t)
	}
	return p
}

// leastDrawn is the lateness, in ms, below which the plot shows no difference.
const leastDrawn = 0.01

func (r *report) latenessPlot() (page.Plot, error) {
	line := page.Series{Name: "idlewheel", Strong: true}
	var ticks []page.Tick
	for i, percent := range []float64{1, 10, 25, 50, 75, 90, 99, 99.9, 99.99, 100} {
		ticks = append(ticks, page.Tick{At: float64(i), Label: fmt.Sprint(percent, " %")})
		if r.Closed > 0 {
			line.X = append(line.X, float64(i))
			line.Y = append(line.Y, max(millis(r.lateness.At(percent)), leastDrawn))
		}
	}
	return page.Lines{
		Title:   "Lateness",
		Caption: fmt.Sprintf("How late so many of the %s that were closed, or fewer, were.", table.Group(r.Closed)),
		XLabel:  "share of the connections", YLabel: "late by at most, ms", LogY: true, XTicks: ticks,
		Series: []page.Series{line},
	}.Plot()
}

func (r *report) busyPlot() (page.Plot, error) {
	line := page.Series{Name: "passes", Strong: true, Plain: true}
	for i := 1; i < len(r.samples); i++ {
		from, to := r.samples[i-1], r.samples[i]
		line.X = append(line.X, to.at.Seconds())
		line.Y = append(line.Y, 100*float64(to.busy-from.busy)/float64(to.at-from.at))
	}
	return page.Lines{
		Title:   "What timing out costs",
		Caption: "The time of passes over connections that came up, as a share of a core.",
		XLabel:  "seconds", YLabel: "% of a core",
		Series: []page.Series{line},
	}.Plot()
}

func (r *report) outcomePlot() (page.Plot, error) {
	live := page.Series{Name: "live", Plain: true}
	closed := page.Series{Name: "timed out", Strong: true, Plain: true}
	for _, s := range r.samples {
		live.X, live.Y = append(live.X, s.at.Seconds()), append(live.Y, float64(s.live))
		closed.X, closed.Y = append(closed.X, s.at.Seconds()), append(closed.Y, float64(s.closed))
	}
	return page.Lines{
		Title: "Connections", Caption: "How many were live, and how many had timed out.",
		XLabel: "seconds", YLabel: "connections",
		Series: []page.Series{closed, live},
	}.Plot()
}
