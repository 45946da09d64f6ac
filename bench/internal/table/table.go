// Package table writes figures and text for a terminal of 80 columns.
package table

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Width is how many columns a terminal has at least.
const Width = 80

// A Table has a row for each thing that is compared. The cells of the first column
// are text and stand on the left; so are those of the second if Left is 2. The rest
// are numbers, and stand on the right.
type Table struct {
	Title, Caption string
	Columns        []string
	Left           int

	rows []row
}

type row struct {
	cells  []string
	remark string
}

// Add adds a row.
func (t *Table) Add(cells ...string) { t.AddWithRemark("", cells...) }

// AddWithRemark adds a row, and a remark that has lines of its own below it.
func (t *Table) AddWithRemark(remark string, cells ...string) {
	t.rows = append(t.rows, row{cells, remark})
}

// Write writes t.
func (t *Table) Write(w io.Writer) {
	widths := make([]int, len(t.Columns))
	for _, r := range append([]row{{cells: t.Columns}}, t.rows...) {
		for i, cell := range r.cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	Paragraph(w, t.Title)
	t.writeRow(w, t.Columns, widths)
	for _, r := range t.rows {
		t.writeRow(w, r.cells, widths)
		if r.remark != "" {
			Entry(w, "", r.remark, 6)
		}
	}
	if t.Caption != "" {
		Paragraph(w, t.Caption)
	}
}

func (t *Table) writeRow(w io.Writer, cells []string, widths []int) {
	var line strings.Builder
	for i, cell := range cells {
		space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
		if i < max(t.Left, 1) {
			line.WriteString("  " + cell + space)
		} else {
			line.WriteString("  " + space + cell)
		}
	}
	fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
}

// Group writes a number with a comma after every three digits.
func Group[T int | int64 | uint64](n T) string {
	s := strconv.FormatInt(int64(n), 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Figure writes a number with three significant digits.
func Figure(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1000:
		return Group(int64(math.Round(v)))
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 1 || v == 0:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

// Round rounds to so many digits after the point, for JSON.
func Round(v float64, digits int) float64 {
	unit := math.Pow10(digits)
	return math.Round(v*unit) / unit
}

// Millis returns a duration in ms, to a microsecond.
func Millis(d time.Duration) float64 { return Round(float64(d)/float64(time.Millisecond), 3) }

// wrap breaks text between words into lines of at most width columns.
func wrap(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		switch longer := line + " " + word; {
		case line == "":
			line = word
		case utf8.RuneCountInString(longer) <= width:
			line = longer
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}

// Paragraph writes text in full lines that fit a terminal. Line breaks in text stay.
func Paragraph(w io.Writer, text string) {
	for line := range strings.SplitSeq(text, "\n") {
		fmt.Fprintln(w, strings.Join(wrap(line, Width), "\n"))
	}
}

// Entry writes a name and, from the given column on, text about it, in as many
// lines as that takes.
func Entry(w io.Writer, name, text string, column int) {
	lines := wrap(text, Width-column)
	if utf8.RuneCountInString(name)+3 > column { // a long name has a line of its own
		fmt.Fprintf(w, "  %s\n", name)
	} else {
		fmt.Fprintf(w, "  %-*s%s\n", column-2, name, lines[0])
		lines = lines[1:]
	}
	for _, line := range lines {
		fmt.Fprintf(w, "%*s%s\n", column, "", line)
	}
}
