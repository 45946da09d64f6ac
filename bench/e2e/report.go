package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/idlewheel/idlewheel/bench/internal/machine"
	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/server"
	"github.com/idlewheel/idlewheel/bench/internal/stats"
	"github.com/idlewheel/idlewheel/bench/internal/table"
)

// result is what is printed of a server.
type result struct {
	Server   string    `json:"server"`
	Conns    int       `json:"conns"`
	Rounds   int       `json:"rounds"`
	Variants []measure `json:"variants"`

	Stream *streamGain `json:"stream,omitempty"` // with -stream
	Crowd  *crowd      `json:"crowd,omitempty"`  // of many connections; not of https
}

// report is what is printed of a run.
type report struct {
	Machine machine.Machine `json:"machine"`
	Servers []result        `json:"servers"`

	cfg config
}

// A measure is of one variant. Beside each ratio is the interval in which it lies
// with 95 % confidence.
type measure struct {
	Name          string          `json:"name"`
	OpsPerS       stats.Summary   `json:"ops_per_s"`
	RatioToBare   float64         `json:"ratio_to_bare"`
	RatioSpread   stats.Summary   `json:"ratio_spread"` // of the ratios to bare
	RatioToBare95 *stats.Interval `json:"ratio_to_bare_95,omitempty"`

	RatioToOwn   *float64        `json:"ratio_to_own,omitempty"` // none if the server has no timeouts of its own
	RatioToOwn95 *stats.Interval `json:"ratio_to_own_95,omitempty"`

	// CPUPerOp is CPU time of the server process, in ns.
	CPUPerOp         stats.Summary   `json:"cpu_ns_per_op"`
	CPURatioToBare   float64         `json:"cpu_ratio_to_bare"`
	CPURatioToBare95 *stats.Interval `json:"cpu_ratio_to_bare_95,omitempty"`
	CPURatioToOwn    *float64        `json:"cpu_ratio_to_own,omitempty"`
	CPURatioToOwn95  *stats.Interval `json:"cpu_ratio_to_own_95,omitempty"`
}

// MarshalJSON returns one object: of one server, what that has and the machine.
func (r *report) MarshalJSON() ([]byte, error) {
	if r.cfg.server == "all" {
		type plain report
		return json.Marshal((*plain)(r))
	}
	return json.Marshal(struct {
		Machine machine.Machine `json:"machine"`
		result
	}{r.Machine, r.Servers[0]})
}

// Status is a pass: figures are for people to judge.
func (r *report) Status() int { return program.Pass }

// Table writes r for people.
func (r *report) Table(w io.Writer) {
	for _, s := range r.Servers {
		for _, t := range s.tables() {
			t.Write(w)
			fmt.Fprintln(w)
		}
		if s.Stream != nil {
			table.Paragraph(w, s.Stream.text()+"\n")
		}
	}
	table.Paragraph(w, legend)
}

// legend explains the columns.
const legend = "A ratio is the median of those within a round; beside it is where it lies with 95 % confidence. " +
	"~ marks those by which no difference is shown, as the interval has 1 in it. A bare server does not close silent connections."

func rounds(n int) string {
	if n == 1 {
		return "1 round"
	}
	return fmt.Sprintf("%d rounds", n)
}

// us is the variant that the page is about.
const us = server.Ours

// tables are what the terminal and the page show of a server.
func (r result) tables() []table.Table {
	ops := table.Table{
		Title:   fmt.Sprintf("%s: requests a second; %d connections, %s", r.Server, r.Conns, rounds(r.Rounds)),
		Columns: table.Columns("", "requests/s", "of bare (95 %)", "of own (95 %)"),
	}
	cpu := table.Table{
		Title:   fmt.Sprintf("%s: CPU time of the server a request", r.Server),
		Columns: table.Columns("", "µs", "of bare (95 %)", "of own (95 %)"),
	}
	for _, v := range r.Variants {
		ops.Rows = append(ops.Rows, table.Row{Strong: v.Name == us, Cells: []string{
			v.Name, fmt.Sprintf("%.0f", v.OpsPerS.Median), v.to(server.Bare, &v.RatioToBare, v.RatioToBare95), v.to(server.Own, v.RatioToOwn, v.RatioToOwn95),
		}})
		cpu.Rows = append(cpu.Rows, table.Row{Strong: v.Name == us, Cells: []string{
			v.Name, fmt.Sprintf("%.2f", v.CPUPerOp.Median/1000), v.to(server.Bare, &v.CPURatioToBare, v.CPURatioToBare95), v.to(server.Own, v.CPURatioToOwn, v.CPURatioToOwn95),
		}})
	}
	all := []table.Table{ops, cpu}
	if r.Crowd != nil {
		all = append(all, r.Crowd.staleTable(r.Server), r.Crowd.memoryTable(r.Server))
	}
	return all
}

func (c *crowd) staleTable(kind string) table.Table {
	t := table.Table{
		Title:   fmt.Sprintf("%s: %s real connections silent at once, limit %v; %s", kind, table.Group(c.Silent), crowdLimit, rounds(c.Rounds)),
		Columns: table.Columns("", "all closed after it", "early", "never", "CPU each", "of own (95 %)"),
	}
	for _, v := range c.Variants {
		if v.AllClosedMS == nil {
			continue
		}
		t.Rows = append(t.Rows, table.Row{Strong: v.Name == us, Cells: []string{
			v.Name, table.Figure(v.AllClosedMS.Median) + " ms (to " + table.Figure(v.AllClosedMS.Max) + ")", table.Group(v.Early), table.Group(v.NotClosed),
			fmt.Sprintf("%.1f µs", v.CPUPerClose.Median), measure{Name: v.Name}.to(server.Own, v.CPUToOwn, v.CPUToOwn95),
		}})
	}
	return t
}

func (c *crowd) memoryTable(kind string) table.Table {
	t := table.Table{
		Title:   fmt.Sprintf("%s: bytes of the process for each of %s connections that wait", kind, table.Group(c.Waiting)),
		Columns: table.Columns("", "bytes", "over bare (95 %)"),
	}
	for _, v := range c.Variants {
		over := fmt.Sprintf("%.0f", v.OverBare)
		if v.OverBare95 != nil {
			over += fmt.Sprintf(" (%.0f to %.0f)", v.OverBare95[0], v.OverBare95[1])
		}
		t.Rows = append(t.Rows, table.Row{Strong: v.Name == us, Cells: []string{v.Name, fmt.Sprintf("%.0f", v.BytesPerConn), over}})
	}
	return t
}

// to writes a ratio to another variant.
func (v measure) to(other string, ratio *float64, interval *stats.Interval) string {
	if v.Name == other {
		return "1"
	}
	return ratioText(ratio, interval)
}

// ratioText writes a ratio with its interval, and marks it if no difference is shown.
func ratioText(ratio *float64, interval *stats.Interval) string {
	if ratio == nil {
		return "-"
	}
	r := stats.Ratio{Median: *ratio, Interval: interval}
	if !r.Shows() {
		return "~ " + r.String()
	}
	return r.String()
}
