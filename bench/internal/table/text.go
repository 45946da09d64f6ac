// Package table writes figures and text for a terminal of 80 columns.
package table

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Width is how many columns a terminal has at least.
const Width = 80

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

// Wrap breaks text into lines of at most width columns, after a comma or semicolon in
// the right half of the line, or else at its last space.
func Wrap(text string, width int) []string { return wrap(text, width, true) }

func wrap(text string, width int, clauses bool) []string {
	var lines []string
	for text != "" {
		end := len(text)
		if utf8.RuneCountInString(text) > width {
			end = breakBefore(text, width, clauses)
		}
		lines = append(lines, strings.TrimRight(text[:end], " "))
		text = strings.TrimLeft(text[end:], " ")
	}
	return lines
}

// breakBefore returns where to break text, which is longer than width.
func breakBefore(text string, width int, clauses bool) int {
	space, clause, column := 0, 0, 0
	for i, r := range text {
		if column > width {
			break
		}
		if r == ' ' && i > 0 {
			space = i
			if clauses && strings.ContainsRune(",;", rune(text[i-1])) && column > width/2 {
				clause = i
			}
		}
		column++
	}
	switch {
	case clause > 0:
		return clause
	case space > 0:
		return space
	}
	return len(text) // one long word
}

// Paragraph writes text in full lines that fit a terminal. Line breaks in text stay.
func Paragraph(w io.Writer, text string) {
	for line := range strings.SplitSeq(text, "\n") {
		fmt.Fprintln(w, strings.Join(wrap(line, Width, false), "\n"))
	}
}

// Entry writes a name and, from the given column on, text about it, in as many
// lines as that takes.
func Entry(w io.Writer, name, text string, column int) {
	indent := strings.Repeat(" ", column)
	begin := "  " + name + strings.Repeat(" ", max(column-2-utf8.RuneCountInString(name), 1))
	if utf8.RuneCountInString(begin) > column { // a long name has a line of its own
		fmt.Fprintln(w, strings.TrimRight(begin, " "))
		begin = indent
	}
	for _, line := range Wrap(text, Width-column) {
		fmt.Fprintln(w, begin+line)
		begin = indent
	}
}
