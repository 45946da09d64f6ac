package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"

	"github.com/idlewheel/idlewheel/bench/internal/machine"
	"github.com/idlewheel/idlewheel/bench/peers/contender"
)

// A report is the result of a run.
type report struct {
	Machine    machine.Machine `json:"machine"`
	Contenders []entry         `json:"contenders"`
	Rows       []*row          `json:"rows"`

	Interrupted bool `json:"interrupted,omitempty"` // this is what there was until then

	cfg      config
	contests []*contest
}

// entry tells what a contender is.
type entry struct {
	Name   string `json:"name"`
	What   string `json:"what"`
	Module string `json:"module,omitempty"`
	Note   string `json:"note,omitempty"`
}

func newReport(m machine.Machine, cfg config, contests []*contest) *report {
	r := &report{Machine: m, Rows: rows(contests), cfg: cfg, contests: contests}
	for _, k := range contender.All() {
		r.Contenders = append(r.Contenders, entry{k.Name, k.What, k.Module, k.Note})
	}
	return r
}

// json writes r as one object.
func (r *report) json(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(r)
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
		ratio = figure(*r.RatioToBest) + "×"
	}
	return []string{
		r.Contender, figure(*r.Median), figure(*r.Min), figure(*r.Max), ratio, r.confidence(),
		count(r.Early), count(r.Lost), r.Note,
	}
}

func cellNames() []string {
	return []string{"contender", "median", "min", "max", "of best", "confidence", "early", "lost", "note"}
}

// figure writes a number with three digits that matter.
func figure(v float64) string {
	switch {
	case v >= 1000 || v <= -1000:
		return group(int64(math.Round(v)))
	case v >= 100 || v <= -100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10 || v <= -10:
		return fmt.Sprintf("%.1f", v)
	case v >= 1 || v <= -1 || v == 0:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

// count writes a number of faults, and nothing for none.
func count(n int) string {
	if n == 0 {
		return "-"
	}
	return group(int64(n))
}

// group writes a number with a comma after every three digits.
func group(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
