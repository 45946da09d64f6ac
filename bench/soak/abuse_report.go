package main

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"slices"
	"text/tabwriter"
)

// An abuseReport is what abuses cost.
type abuseReport struct {
	Rounds    int        `json:"rounds"`
	GoVersion string     `json:"go_version"`
	Platform  string     `json:"platform"`
	CPUs      int        `json:"cpus"`
	Rows      []abuseRow `json:"abuses"`
}

// An abuseRow is of one abuse of one kind of server.
type abuseRow struct {
	Server string  `json:"server"`
	Abuse  string  `json:"abuse"`
	Unit   string  `json:"unit"`
	Bare   float64 `json:"bare_cpu_ns"` // of a unit; medians
	Ours   float64 `json:"ours_cpu_ns"`
	Ratio  float64 `json:"ratio"` // of ours to bare; the median of the rounds
	Least  float64 `json:"ratio_min"`
	Most   float64 `json:"ratio_max"`
}

func newAbuseReport(cfg config) *abuseReport {
	return &abuseReport{
		Rounds: cfg.rounds, GoVersion: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(),
	}
}

// newAbuseRow compares the costs by round.
func newAbuseRow(a *abuse, kind string, bare, ours []float64) abuseRow {
	ratios := make([]float64, len(bare))
	for i := range bare {
		ratios[i] = ours[i] / bare[i]
	}
	return abuseRow{
		Server: kind, Abuse: a.name, Unit: a.unit, Bare: round(median(bare), 2), Ours: round(median(ours), 2),
		Ratio: round(median(ratios), 3), Least: round(slices.Min(ratios), 3), Most: round(slices.Max(ratios), 3),
	}
}

// status is a pass: figures are for people to judge.
func (r *abuseReport) status() int { return statusPass }

// table writes r for people.
func (r *abuseReport) table(w io.Writer) error {
	var out bytes.Buffer
	fmt.Fprintf(&out, "soak -abuse: CPU time of servers whose client is abusive, with timeouts and without, in turns; medians of %d rounds\n\n", r.Rounds)
	t := tabwriter.NewWriter(&out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "server\ta client that\tbare\tours\tratio\t(least, most)")
	for _, row := range r.Rows {
		fmt.Fprintf(t, "%s\t%s\t%.1f ns\t%.1f ns a %s\t%.3f\t(%.3f, %.3f)\n", row.Server, row.Abuse, row.Bare, row.Ours, row.Unit, row.Ratio, row.Least, row.Most)
	}
	t.Flush() // only into memory
	_, err := w.Write(out.Bytes())
	return err
}
