package main

import (
	"fmt"
	"io"

	"github.com/idlewheel/idlewheel/bench/internal/machine"
	"github.com/idlewheel/idlewheel/bench/internal/page"
	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/table"
	"github.com/idlewheel/idlewheel/bench/peers/contender"
)

// us is the contender that the plot is about.
const us = "idlewheel"

// A report is the result of a run.
type report struct {
	Machine    machine.Machine  `json:"machine"`
	Contenders []contender.Kind `json:"contenders"`
	Rows       []*row           `json:"rows"`

	Interrupted bool `json:"interrupted,omitempty"` // this is what there was until then

	cfg config
}

// facts are what a reader must know of a run, as names and values.
func (r *report) facts() [][2]string {
	mode := "full size"
	if r.cfg.quick {
		mode = "-quick: small, and too few turns to be sure of anything"
	}
	if r.Interrupted {
		mode += "; INTERRUPTED, so this is what there was until then"
	}
	return append(r.Machine.Facts("contenders"),
		[2]string{"run", fmt.Sprintf("%s, %s; rounds %d", r.Machine.Date, mode, r.cfg.rounds)})
}

// modules are the paths of those contenders that are modules.
func modules() []string {
	var paths []string
	for _, k := range contender.All() {
		if k.Module != "" {
			paths = append(paths, k.Module)
		}
	}
	return paths
}

// tableOf returns the rows of a measure.
func tableOf(rows []*row) table.Table {
	t := table.Table{
		Title:   rows[0].Workload + ": " + rows[0].title + ", " + rows[0].Unit,
		Columns: []string{"contender", "median", "min", "max", "of best", "confidence", "early", "lost"},
	}
	for _, r := range rows {
		if r.Median == nil {
			t.AddWithRemark("skipped: "+r.Skipped, r.Contender, "", "", "", "", "", count(r.Early), count(r.Lost))
			continue
		}
		ratio := ""
		if r.RatioToBest != nil {
			ratio = table.Figure(*r.RatioToBest) + "×"
		}
		t.AddWithRemark(r.Note, r.Contender, table.Figure(*r.Median), table.Figure(*r.Min), table.Figure(*r.Max), ratio, r.confidence(),
			count(r.Early), count(r.Lost))
	}
	return t
}

// legend explains the columns.
const legend = `Less is better everywhere. "of best" is the ratio of the medians; best is only who expired nothing early and lost nothing. ` +
	"p is the probability of such a difference by chance (Mann-Whitney, as benchstat); ~ where it is not below 0.05, " +
	"n alone where there were too few turns to tell. Lateness below 0.1 ms counts as 0.1 ms in ratios."

// Table writes r for people.
func (r *report) Table(w io.Writer) {
	for _, f := range r.facts() {
		table.Entry(w, f[0], f[1], helpColumn/2)
	}
	fmt.Fprintln(w)
	writeContenders(w)
	for rest := r.Rows; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].Workload == rest[0].Workload {
			n++
		}
		fmt.Fprintln(w)
		t := tableOf(rest[:n])
		t.Write(w)
		rest = rest[n:]
	}
	table.Paragraph(w, "\n"+legend)
}

// Status is the exit status.
func (r *report) Status() int {
	if r.Interrupted {
		return program.Interrupted
	}
	return program.Pass
}

// count writes a number of faults, and nothing for none.
func count(n int) string {
	if n == 0 {
		return "-"
	}
	return table.Group(n)
}

// costPlot is the time of a reset against the number of connections. A contender
// with fewer connections than the others has no point.
func (r *report) costPlot() page.Plot {
	p := page.Plot{
		Title:   "Cost of a reset",
		Caption: "What noting an activity of a random connection costs, by how many connections there are. Beyond the cache it is the memory that takes the time.",
		XLabel:  "connections", YLabel: "ns a reset", Log: true,
	}
	for _, k := range r.Contenders {
		s := page.Series{Name: k.Name, Strong: k.Name == us}
		for _, n := range r.cfg.scale().Sizes {
			for _, row := range r.Rows {
				if row.Workload == resetRandom(n).name && row.Contender == k.Name && row.Conns == n && row.Median != nil {
					s.X, s.Y = append(s.X, float64(n)), append(s.Y, *row.Median)
				}
			}
		}
		p.Series = append(p.Series, s)
	}
	return p
}
