package main

import (
	"fmt"
	"os"

	"github.com/idlewheel/idlewheel/bench/internal/page"
)

// writePage writes r as an HTML page to a file.
func (r *report) writePage(file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	err = r.page().Write(f)
	if closing := f.Close(); err == nil {
		err = closing
	}
	return err
}

func (r *report) page() page.Page {
	p := page.Page{
		Title: fmt.Sprintf("loadtest: %s connections", group(r.Conns)),
		Intro: r.verdict(),
		Facts: []page.Fact{
			{Name: "connections", Value: r.kinds()},
			{Name: "limits", Value: r.limits()},
			{Name: "tracker", Value: fmt.Sprintf("tick %v, shards %d", r.cfg.tick, r.Shards)},
			{Name: "where", Value: fmt.Sprintf("%s %s, %d CPUs, seed %d", r.GoVersion, r.Platform, r.CPUs, r.Seed)},
		},
		Tables: []page.Table{r.figuresTable()},
	}
	for _, draw := range []func() (page.Plot, error){r.latenessPlot, r.busyPlot, r.outcomePlot} {
		if plot, err := draw(); err == nil { // else the run has nothing of the kind
			p.Plots = append(p.Plots, plot)
		}
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
		Caption: fmt.Sprintf("How late so many of the %s that were closed, or fewer, were.", group(r.Closed)),
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

// figuresTable has what the table on the terminal has.
func (r *report) figuresTable() page.Table {
	t := page.Table{
		Title:   "Figures",
		Columns: []page.Column{{Name: "what", Text: true}, {Name: "figure", Text: true}},
	}
	add := func(what, format string, args ...any) {
		t.Rows = append(t.Rows, page.Row{Cells: []string{what, fmt.Sprintf(format, args...)}})
	}
	add("had to be closed", "%s", group(r.Expected))
	add("closed", "%s", group(r.Closed))
	add("too early, missed, for a wrong reason", "%s, %s, %s", group(r.Early), group(r.Missed), group(r.WrongReason))
	add("late", "median %v ms, p99 %v ms, at most %v ms", r.Late.P50, r.Late.P99, r.Late.Max)
	add("deferred", "%s", group(r.Deferred))
	if r.Mode == "mock" { // else the tracker is elsewhere
		add("an activity", "%v ns of a random connection, %v ns of the same one; %v allocations", r.TouchNS, r.HotNS, r.AllocsPerTouch)
		add("a connection", "%v bytes", r.BytesPerConn)
	}
	add("timing out", "%v %% of a core", r.TrackerCPU)
	add("a pass", "p99 %v ms, at most %v ms", r.Pause.P99, r.Pause.Max)
	add("looks, relinks", "%s, %s", group(r.Looks), group(r.Relinks))
	return t
}
