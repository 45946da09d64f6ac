package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/idlewheel/idlewheel/bench/internal/machine"
)

// result is what is printed of a server.
type result struct {
	Server   string    `json:"server"`
	Conns    int       `json:"conns"`
	Rounds   int       `json:"rounds"`
	Variants []measure `json:"variants"`

	Stream *streamGain `json:"stream,omitempty"` // with -stream
}

// report is what is printed of a run.
type report struct {
	Machine machine.Machine `json:"machine"`
	Servers []result        `json:"servers"`

	cfg config
}

type measure struct {
	Name        string  `json:"name"`
	OpsPerS     summary `json:"ops_per_s"`
	RatioToBare float64 `json:"ratio_to_bare"`
	RatioSpread summary `json:"ratio_spread"` // of the ratios to bare
	// RatioConfidence is between what RatioToBare is with 95 % confidence.
	RatioConfidence *[2]float64 `json:"ratio_to_bare_95,omitempty"`

	RatioToOwn *float64 `json:"ratio_to_own,omitempty"` // none if the server has no timeouts of its own

	// CPUPerOp is CPU time of the server process, in ns.
	CPUPerOp       summary  `json:"cpu_ns_per_op"`
	CPURatioToBare float64  `json:"cpu_ratio_to_bare"`
	CPURatioToOwn  *float64 `json:"cpu_ratio_to_own,omitempty"`
}

type summary struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// json writes r as one object: of one server, as what that has and the machine.
func (r report) json(w io.Writer) error {
	if r.cfg.server == "all" {
		return json.NewEncoder(w).Encode(r)
	}
	return json.NewEncoder(w).Encode(struct {
		Machine machine.Machine `json:"machine"`
		result
	}{r.Machine, r.Servers[0]})
}

func printTable(w io.Writer, results []result) {
	for _, r := range results {
		fmt.Fprintln(w, r.title())
		printRow(w, cellNames())
		for _, v := range r.Variants {
			printRow(w, v.cells())
		}
		if r.Stream != nil {
			fmt.Fprintln(w, "  "+r.Stream.text())
		}
	}
}

func printRow(w io.Writer, cells []string) {
	fmt.Fprintf(w, "  %-9s %12s %20s %9s %16s %9s %14s %9s %9s\n",
		cells[0], cells[1], cells[2], cells[3], cells[4], cells[5], cells[6], cells[7], cells[8])
}

func (r result) title() string {
	return fmt.Sprintf("%s, %d connections, %d rounds", r.Server, r.Conns, r.Rounds)
}

// cells are what a variant shows, the same on the terminal and on the page.
func (v measure) cells() []string {
	return []string{
		v.Name, fmt.Sprintf("%.0f", v.OpsPerS.Median), fmt.Sprintf("(%.0f to %.0f)", v.OpsPerS.Min, v.OpsPerS.Max),
		fmt.Sprintf("%.3f", v.RatioToBare), confidenceText(v.RatioConfidence), ratioText(v.RatioToOwn),
		fmt.Sprintf("%.0f ns", v.CPUPerOp.Median), fmt.Sprintf("%.3f", v.CPURatioToBare), ratioText(v.CPURatioToOwn),
	}
}

func cellNames() []string {
	return []string{"", "requests/s", "(min to max)", "of bare", "(95 %)", "of own", "CPU a request", "of bare", "of own"}
}

func ratioText(ratio *float64) string {
	if ratio == nil {
		return "-"
	}
	return fmt.Sprintf("%.3f", *ratio)
}

func confidenceText(between *[2]float64) string {
	if between == nil {
		return "-"
	}
	return fmt.Sprintf("(%.3f to %.3f)", between[0], between[1])
}
