package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/idlewheel/idlewheel/bench/internal/machine"
	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/stats"
	"github.com/idlewheel/idlewheel/bench/internal/table"
)

// result is what is printed of a server.
type result struct {
	Server   string    `json:"server"`
	Conns    int       `json:"conns"`
	Streams  int       `json:"streams,omitempty"` // of each connection, with HTTP/2
	Rounds   int       `json:"rounds"`
	Variants []measure `json:"variants,omitempty"` // none with -idle

	Idle   []calm      `json:"idle,omitempty"`   // with -idle, by messages a second
	Stream *streamGain `json:"stream,omitempty"` // with -stream
	Crowd  *crowd      `json:"crowd,omitempty"`  // of many connections; not of https
}

// streamGain is what kernel.Stream gains and costs: ours compared with noStream.
type streamGain struct {
	OpsRatio     *float64        `json:"ops_ratio"`
	OpsRatio95   *stats.Interval `json:"ops_ratio_95,omitempty"`
	CPURatio     *float64        `json:"cpu_ratio"`
	CPURatio95   *stats.Interval `json:"cpu_ratio_95,omitempty"`
	BytesPerConn int             `json:"bytes_per_conn"`
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
	RatioToBare   *float64        `json:"ratio_to_bare"`
	RatioToBare95 *stats.Interval `json:"ratio_to_bare_95,omitempty"`

	RatioToOwn   *float64        `json:"ratio_to_own,omitempty"` // none if the server has no timeouts of its own
	RatioToOwn95 *stats.Interval `json:"ratio_to_own_95,omitempty"`

	// CPUPerOp is CPU time of the server process, in ns.
	CPUPerOp         stats.Summary   `json:"cpu_ns_per_op"`
	CPURatioToBare   *float64        `json:"cpu_ratio_to_bare"`
	CPURatioToBare95 *stats.Interval `json:"cpu_ratio_to_bare_95,omitempty"`
	CPURatioToOwn    *float64        `json:"cpu_ratio_to_own,omitempty"`
	CPURatioToOwn95  *stats.Interval `json:"cpu_ratio_to_own_95,omitempty"`

	SwitchesPerS stats.Summary `json:"switches_per_s"` // context switches of the server process
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
	for _, f := range r.Machine.Facts("servers") {
		table.Entry(w, f[0], f[1], 14)
	}
	run := r.cfg
	if r.cfg.idle > 0 {
		run = r.cfg.idling(0)
	}
	table.Entry(w, "run", fmt.Sprintf("%s; %d connections, %d rounds, in each of which a variant has %v; messages of echo servers have %d bytes",
		r.Machine.Date, run.conns, run.rounds, run.duration, run.size), 14)
	fmt.Fprintln(w)
	for _, s := range r.Servers {
		s.write(w)
	}
	table.Paragraph(w, "A ratio is the median of those within a round; beside it is where it lies with 95 % confidence. "+
		"~ marks those by which no difference is shown, as the interval has 1 in it. A bare server does not close silent connections.")
}

// write writes the tables of a server.
func (r result) write(w io.Writer) {
	if r.Idle != nil {
		r.writeIdle(w)
		return
	}
	conns := fmt.Sprintf("%d connections", r.Conns)
	if r.Streams > 0 {
		conns += fmt.Sprintf(" of %d streams", r.Streams)
	}
	ops := table.Table{
		Title:   fmt.Sprintf("%s: requests a second; %s, rounds: %d", r.Server, conns, r.Rounds),
		Columns: []string{"", "requests/s", "of bare (95 %)", "of own (95 %)"},
	}
	cpu := table.Table{
		Title:   fmt.Sprintf("\n%s: CPU time of the server a request", r.Server),
		Columns: []string{"", "µs", "of bare (95 %)", "of own (95 %)", "switches/s"},
	}
	for _, v := range r.Variants {
		ops.Add(v.Name, fmt.Sprintf("%.0f", v.OpsPerS.Median), ratioText(v.RatioToBare, v.RatioToBare95), ratioText(v.RatioToOwn, v.RatioToOwn95))
		cpu.Add(v.Name, fmt.Sprintf("%.2f", v.CPUPerOp.Median/1000), ratioText(v.CPURatioToBare, v.CPURatioToBare95), ratioText(v.CPURatioToOwn, v.CPURatioToOwn95), table.Group(int(v.SwitchesPerS.Median)))
	}
	ops.Write(w)
	cpu.Write(w)
	if r.Crowd != nil {
		r.Crowd.write(w, r.Server)
	}
	if g := r.Stream; g != nil {
		table.Paragraph(w, fmt.Sprintf("\nkernel.Stream, ours to no-stream: %s times the requests/s, %s times the CPU a request, %d bytes more a connection",
			ratioText(g.OpsRatio, g.OpsRatio95), ratioText(g.CPURatio, g.CPURatio95), g.BytesPerConn))
	}
	fmt.Fprintln(w)
}

// write writes the tables of a crowd.
func (c *crowd) write(w io.Writer, kind string) {
	stale := table.Table{
		Title: fmt.Sprintf("\n%s: %s real connections silent at once, limit %.3g s; rounds: %d\nHow late they are closed in ms, median and the last; "+
			"CPU time for each in µs; and the p99 in ms of answers to %d active ones meanwhile", kind, table.Group(c.Silent), c.LimitMS/1000, c.Rounds, c.Active),
		Columns: []string{"", "median", "last (to)", "CPU", "of own (95 %)", "p99"},
	}
	memory := table.Table{
		Title:   fmt.Sprintf("\n%s: bytes of the process for each of %s connections that wait", kind, table.Group(c.Waiting)),
		Columns: []string{"", "bytes", "over bare (95 %)"},
	}
	for _, v := range c.Variants {
		over := fmt.Sprintf("%.0f", v.OverBare)
		if v.OverBare95 != nil {
			over += fmt.Sprintf(" (%.0f to %.0f)", v.OverBare95[0], v.OverBare95[1])
		}
		memory.Add(v.Name, fmt.Sprintf("%.0f", v.BytesPerConn), over)
		if v.AllClosedMS != nil {
			remark := ""
			if v.Early+v.NotClosed > 0 {
				remark = fmt.Sprintf("closed early: %s; never: %s", table.Group(v.Early), table.Group(v.NotClosed))
			}
			stale.AddWithRemark(remark, v.Name, table.Figure(v.LateMS.Median), table.Figure(v.AllClosedMS.Median)+" (to "+table.Figure(v.AllClosedMS.Max)+")",
				fmt.Sprintf("%.1f", v.CPUPerClose.Median), ratioText(v.CPUToOwn, v.CPUToOwn95), table.Figure(v.ActiveMS.P99))
		}
	}
	if c.Silent > 0 {
		stale.Write(w)
	}
	memory.Write(w)
}

// ratioText writes a ratio with its interval, and marks it if no difference is shown.
func ratioText(ratio *float64, interval *stats.Interval) string {
	switch {
	case ratio == nil:
		return "-"
	case interval != nil && *interval == (stats.Interval{1, 1}):
		return "1" // to itself
	}
	r := stats.Ratio{Median: *ratio, Interval: interval}
	if !r.Shows() {
		return "~ " + r.String()
	}
	return r.String()
}
