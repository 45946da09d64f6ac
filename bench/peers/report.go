package main

import (
	"fmt"
	"io"

	"github.com/idlewheel/idlewheel/bench/internal/machine"
	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/table"
	"github.com/idlewheel/idlewheel/bench/peers/contender"
)

// A report is the result of a run.
type report struct {
	Machine    machine.Machine  `json:"machine"`
	Contenders []contender.Kind `json:"contenders"`
	Rows       []*row           `json:"rows"`

	Interrupted bool `json:"interrupted,omitempty"` // this is what there was until then

	cfg      config
	contests []*contest
}

func newReport(m machine.Machine, cfg config, contests []*contest) *report {
	return &report{Machine: m, Contenders: contender.All(), Rows: rows(contests), cfg: cfg, contests: contests}
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

// groups returns the rows measure by measure.
func (r *report) groups() [][]*row {
	var groups [][]*row
	for i, row := range r.Rows {
		if i == 0 || r.Rows[i-1].Workload != row.Workload {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], row)
	}
	return groups
}

// cells are what a row shows, the same on the terminal and on the page.
func (r *row) cells() []string {
	if r.Median == nil {
		return []string{r.Contender, "", "", "", "", "", count(r.Early), count(r.Lost), "skipped: " + r.Skipped}
	}
	ratio := ""
	if r.RatioToBest != nil {
		ratio = table.Figure(*r.RatioToBest) + "×"
	}
	return []string{
		r.Contender, table.Figure(*r.Median), table.Figure(*r.Min), table.Figure(*r.Max), ratio, r.confidence(),
		count(r.Early), count(r.Lost), r.Note,
	}
}

// tableOf returns the rows of a measure, as the terminal and the page show them.
func tableOf(rows []*row) table.Table {
	t := table.Table{
		Title:   rows[0].Workload + ": " + rows[0].title + ", " + rows[0].Unit,
		Columns: table.Columns("contender", "median", "min", "max", "of best", "confidence", "early", "lost"),
	}
	t.Columns = append(t.Columns, table.Column{Name: "note", Text: true, Below: true})
	for _, r := range rows {
		t.Rows = append(t.Rows, table.Row{Cells: r.cells(), Strong: r.Contender == us, Weak: class(r) != classHonest})
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
	for _, rows := range r.groups() {
		fmt.Fprintln(w)
		tableOf(rows).Write(w)
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
