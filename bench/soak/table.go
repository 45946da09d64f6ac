package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/idlewheel/idlewheel/bench/internal/table"
)

// Table writes r for people.
func (r *report) Table(w io.Writer) {
	fmt.Fprintln(w)
	if r.passed() {
		table.Paragraph(w, "PASS: nobody was closed who was active, everybody who was stale, each for its reason, and nothing leaked.")
	} else {
		fmt.Fprintf(w, "FAIL: %d violations, %d leaks.\n", r.Violated, len(r.Leaks))
	}
	for _, v := range r.FirstOnes {
		table.Entry(w, "violation:", v, 4)
	}
	for _, l := range r.Leaks {
		table.Entry(w, "leak:", l, 4)
	}
	if r.Interrupted {
		fmt.Fprintf(w, "Interrupted after %.0f s: this covers what happened until then.\n", r.Seconds)
	}
	r.tableServers(w)
	r.tableWindows(w)
	r.tableLevels(w)
}

func (r *report) tableServers(w io.Writer) {
	t := table.Table{
		Title:   "\nconnections, as the servers have counted them, and by what reason they timed out",
		Columns: []string{"server", "tracked", "gone", "timed out", "draws", "violated", "pings", "deferred"},
		Caption: "Draws ended, or came back, after their limit, as the clients were too late. What was deferred came a tick or more after it was due.",
	}
	for _, s := range r.Servers {
		var n uint64
		var reasons []string
		for _, reason := range slices.Sorted(maps.Keys(s.TimedOut)) {
			n += s.TimedOut[reason]
			reasons = append(reasons, table.Group(s.TimedOut[reason])+" "+reason)
		}
		t.AddWithRemark(strings.Join(reasons, ", "), s.Name, table.Group(s.Tracked), table.Group(s.Gone), table.Group(n),
			table.Group(s.Seen.Draws), table.Group(s.Seen.Faults), table.Group(s.Pings), table.Group(s.Deferred))
	}
	t.Write(w)
}

func (r *report) tableWindows(w io.Writer) {
	t := table.Table{
		Title:   "\nstale connections that were closed, by when, and how late, in ms",
		Columns: []string{"until", "closed", "p50", "p99", "max", "stall", "goroutines", "fds", "heap MB", "tracked"},
		Caption: fmt.Sprintf("In all: p50 %.1f ms, p99 %.1f ms, at most %.1f ms; from the first half to the second it rose by %.1f ms (p50) and %.1f ms (p99). A stall is how long, at most, this process did not get to run.",
			r.Late.P50, r.Late.P99, r.Late.Max, r.Drift.P50, r.Drift.P99),
	}
	for _, win := range r.Windows {
		t.Add(append([]string{fmt.Sprintf("%.0f s", win.End), table.Group(win.Closed), tenths(win.Late.P50), tenths(win.Late.P99),
			tenths(win.Late.Max), fmt.Sprintf("%.0f", win.Stall)}, win.level.cells()...)...)
	}
	t.Write(w)
}

func (r *report) tableLevels(w io.Writer) {
	t := table.Table{
		Title:   "\nin use",
		Columns: []string{"", "goroutines", "fds", "heap MB", "tracked"},
		Caption: fmt.Sprintf("For each of %s connections served after the warm-up the heap grew by %.1f bytes.", table.Group(r.Served), r.HeapEach),
	}
	for _, row := range []struct {
		when string
		level
	}{
		{"before the servers", r.Empty},
		{"after the warm-up", r.Start},
		{"all connections closed", r.End},
		{"allowed more than after the warm-up", r.Allowed},
		{"servers stopped", r.Stopped},
	} {
		t.Add(append([]string{row.when}, row.cells()...)...)
	}
	t.Write(w)
}

func (l level) cells() []string {
	return []string{table.Group(l.Goroutines), table.Group(l.Descriptors), tenths(l.HeapMB), table.Group(l.Tracked)}
}

func tenths(v float64) string { return fmt.Sprintf("%.1f", v) }
