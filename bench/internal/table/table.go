package table

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// A Table has a row for each of what is compared.
type Table struct {
	Title   string
	Caption string
	Columns []Column
	Rows    []Row
}

// A Column is what the cells below it are.
type Column struct {
	Name  string
	Text  bool // to the left, not a number
	Below bool // a remark, which on a terminal has lines of its own
}

// Columns returns columns with the given names. The first is text.
func Columns(names ...string) []Column {
	var all []Column
	for i, name := range names {
		all = append(all, Column{Name: name, Text: i == 0})
	}
	return all
}

// A Row is a line of a table. Strong is the one that a page is about; Weak
// has nothing to show, or not what it should.
type Row struct {
	Cells        []string
	Strong, Weak bool
}

// Add adds a row.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, Row{Cells: cells}) }

// Write writes t for a terminal: text to the left, numbers to the right.
func (t Table) Write(w io.Writer) {
	if t.Title != "" {
		Paragraph(w, t.Title)
	}
	var heads []string
	widths := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		heads = append(heads, c.Name)
		widths[i] = utf8.RuneCountInString(c.Name)
		for _, r := range t.Rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(r.Cells[i]))
		}
	}
	t.writeRow(w, heads, widths)
	for _, r := range t.Rows {
		t.writeRow(w, r.Cells, widths)
		for i, c := range t.Columns {
			if c.Below && r.Cells[i] != "" {
				Entry(w, "", r.Cells[i], remarkColumn)
			}
		}
	}
	if t.Caption != "" {
		Paragraph(w, t.Caption)
	}
}

const remarkColumn = 6

func (t Table) writeRow(w io.Writer, cells []string, widths []int) {
	var line strings.Builder
	for i, c := range t.Columns {
		if c.Below {
			continue
		}
		space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cells[i]))
		if c.Text {
			line.WriteString("  " + cells[i] + space)
		} else {
			line.WriteString("  " + space + cells[i])
		}
	}
	fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
}
