package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// A terminal has at least 80 columns. What the program prints by default fits that.
const (
	textWidth  = 80
	valueWidth = 56 // of a row, next to the longest name
)

// wrap breaks text into lines of at most width columns, after a comma or semicolon in
// the right half of the line, or else at its last space.
func wrap(text string, width int) []string {
	var lines []string
	for text != "" {
		end := len(text)
		if utf8.RuneCountInString(text) > width {
			end = breakBefore(text, width)
		}
		lines = append(lines, strings.TrimRight(text[:end], " "))
		text = strings.TrimLeft(text[end:], " ")
	}
	return lines
}

// breakBefore returns where to break text, which is longer than width.
func breakBefore(text string, width int) int {
	space, clause, column := 0, 0, 0
	for i, r := range text {
		if column > width {
			break
		}
		if r == ' ' && i > 0 {
			space = i
			if strings.ContainsRune(",;", rune(text[i-1])) && column > width/2 {
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

// paragraph writes text in lines that fit a terminal.
func paragraph(w io.Writer, text string) {
	for line := range strings.SplitSeq(text, "\n") {
		fmt.Fprintln(w, strings.Join(wrap(line, textWidth), "\n"))
	}
}

// row writes a name and what is to be said of it, which continues on lines without a
// name if it is long.
func row(w io.Writer, name, format string, args ...any) {
	for _, line := range wrap(fmt.Sprintf(format, args...), valueWidth) {
		fmt.Fprintf(w, "  %s\t%s\n", name, line)
		name = ""
	}
}
