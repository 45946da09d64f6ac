// Package table writes tables and figures for people.
package table

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// Write writes a title and rows of cells. The first row has the names of the columns.
func Write(w io.Writer, title string, rows ...[]string) {
	fmt.Fprintf(w, "\n%s\n", title)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		fmt.Fprintf(t, "  %s\n", strings.Join(r, "\t"))
	}
	t.Flush()
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
	}
	return fmt.Sprintf("%#.3g", v)
}

// Round rounds to so many digits after the point, for JSON.
func Round(v float64, digits int) float64 {
	unit := math.Pow10(digits)
	return math.Round(v*unit) / unit
}

// Millis returns a duration in ms, to a microsecond.
func Millis(d time.Duration) float64 { return Round(float64(d)/float64(time.Millisecond), 3) }
