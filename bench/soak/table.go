package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// table writes r for people.
func (r *report) table(w io.Writer) error {
	var out bytes.Buffer
	fmt.Fprintf(&out, "soak: %s clients at a time for %.0f s, every limit %v, slack %.0f ms\n\n%s\n\n", group(r.Conns), r.Seconds, limit, r.SlackMS, r.verdict())
	r.tableServers(&out)
	r.tableWindows(&out)
	r.tableLevels(&out)
	_, err := w.Write(out.Bytes())
	return err
}

// verdict says how it went.
func (r *report) verdict() string {
	var b strings.Builder
	if r.passed() {
		b.WriteString("PASS: nobody was closed who was active, everybody who was stale, each for its reason, and nothing leaked.")
	} else {
		fmt.Fprintf(&b, "FAIL: %d violations, %d leaks.", r.Violated, len(r.Leaks))
	}
	for _, f := range r.FirstOnes {
		fmt.Fprintf(&b, "\n  %s", f)
	}
	for _, l := range r.Leaks {
		fmt.Fprintf(&b, "\n  leak: %s", l)
	}
	if r.Interrupted {
		b.WriteString("\nInterrupted: this covers what happened until then.")
	}
	return b.String()
}

func (r *report) tableServers(out io.Writer) {
	t := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "server\ttracked\tgone\ttimed out\tdraws\tviolated\tpings\tdeferred\ttimed out, by reason")
	for _, s := range r.Servers {
		var n uint64
		var reasons []string
		for _, reason := range slices.Sorted(maps.Keys(s.TimedOut)) {
			n += s.TimedOut[reason]
			reasons = append(reasons, fmt.Sprintf("%s %s", group(s.TimedOut[reason]), reason))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%d\t%s\t%d\t%s\n", s.Name, group(s.Tracked), group(s.Gone), group(n), s.Seen.Draws, s.Seen.Faults, group(s.Pings), s.Deferred, strings.Join(reasons, ", "))
	}
	t.Flush() // only into memory
}

func (r *report) tableWindows(out io.Writer) {
	t := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "\nuntil\tclosed\tlate p50\tp99\tmax\tlongest stall\tgoroutines\tdescriptors\theap\ttracked")
	for _, w := range r.Windows {
		fmt.Fprintf(t, "%.0f s\t%s\t%.1f ms\t%.1f ms\t%.1f ms\t%.0f ms\t%s\n", w.End, group(w.Closed), w.Late.P50, w.Late.P99, w.Late.Max, w.Stall, w.level.columns())
	}
	t.Flush()
	fmt.Fprintf(out, "lateness in all: p50 %.1f ms, p99 %.1f ms, at most %.1f ms; it rose by %.1f ms (p50) and %.1f ms (p99) from the first half to the second\n", r.Late.P50, r.Late.P99, r.Late.Max, r.Drift.P50, r.Drift.P99)
}

func (r *report) tableLevels(out io.Writer) {
	t := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "\nin use\tgoroutines\tdescriptors\theap\ttracked")
	fmt.Fprintf(t, "before the servers\t%s\n", r.Empty.columns())
	fmt.Fprintf(t, "after the warm-up\t%s\n", r.Start.columns())
	fmt.Fprintf(t, "all connections closed\t%s\n", r.End.columns())
	fmt.Fprintf(t, "allowed more than after the warm-up\t%d\t%d\t%.1f MB\t%d\n", r.Allowed.Goroutines, r.Allowed.Descriptors, r.Allowed.HeapMB, r.Allowed.Tracked)
	fmt.Fprintf(t, "servers stopped\t%s\n", r.Stopped.columns())
	t.Flush()
	fmt.Fprintf(out, "for each of %s connections served after the warm-up the heap grew by %.1f bytes\n", group(r.Served), r.HeapEach)
}

func (l level) columns() string {
	return fmt.Sprintf("%s\t%s\t%.1f MB\t%s", group(l.Goroutines), group(l.Descriptors), l.HeapMB, group(l.Tracked))
}
