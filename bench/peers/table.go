package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/idlewheel/idlewheel/bench/peers/contender"
)

// table writes r for people.
func (r *report) table(w io.Writer) error {
	var out bytes.Buffer
	fmt.Fprintln(&out, "peers: ways to notice that a connection has gone stale")
	for _, f := range r.facts() {
		fmt.Fprintf(&out, "  %-11s %s\n", f[0], f[1])
	}
	fmt.Fprintln(&out)
	printContenders(&out)
	for _, rows := range r.groups() {
		fmt.Fprintf(&out, "\n%s: %s, %s\n", rows[0].Workload, rows[0].title, rows[0].Unit)
		printRows(&out, rows)
	}
	fmt.Fprintf(&out, "\n%s\n", legend())
	_, err := w.Write(out.Bytes())
	return err
}

// legend explains the columns.
func legend() string {
	return `Less is better everywhere. "of best" is the ratio of the medians; best is only who expired
nothing early and lost nothing. p is the probability of such a difference by chance
(Mann-Whitney, as benchstat); ~ where it is not below 0.05, n alone where there were too few
turns to tell. Lateness below 0.1 ms counts as 0.1 ms in ratios.`
}

func printContenders(w io.Writer) {
	for _, k := range contender.All() {
		text := k.What
		if k.Note != "" {
			text += "; " + k.Note
		}
		fmt.Fprintf(w, "  %-15s %s\n", k.Name, text)
	}
}

// printRows prints the rows of a measure: numbers to the right, text to the
// left. A note that all of a contender's rows have is above, with its name.
func printRows(w io.Writer, rows []*row) {
	names := cellNames()
	text := func(i int) bool { return i == 0 || i == len(names)-1 }
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	lines := [][]string{names}
	for _, r := range rows {
		lines = append(lines, r.cells())
	}
	widths := make([]int, len(names))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, line := range lines {
		for i, cell := range line {
			if !text(i) {
				cell = strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)) + cell
			}
			line[i] = cell
		}
		fmt.Fprintf(t, "  %s\n", strings.TrimRight(strings.Join(line, "\t"), " \t"))
	}
	t.Flush() // only into memory
}

func contenderNames() []string {
	var names []string
	for _, k := range contender.All() {
		names = append(names, k.Name)
	}
	return names
}
