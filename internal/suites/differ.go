package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// A diff is how a wrapped run differs from a bare one.
type diff struct {
	machine    []test // failures that the bare run has as well
	unexpected []test // failures of the wrapped run only
	unsteady   []test // those that pass when run alone
}

// difference returns what failed in wrapped, or is missing there, and not in bare.
func difference(bare, wrapped results) *diff {
	d := new(diff)
	for t := range wrapped.outcome {
		switch {
		case !wrapped.failed(t):
		case bare.failed(t):
			d.machine = append(d.machine, t)
		default:
			d.unexpected = append(d.unexpected, t)
		}
	}
	for t, o := range bare.outcome {
		if _, ran := wrapped.outcome[t]; !ran && o == "pass" && t.top() == t.name {
			d.unexpected = append(d.unexpected, t)
		}
	}
	for _, list := range [][]test{d.machine, d.unexpected} {
		slices.SortFunc(list, func(a, b test) int { return strings.Compare(a.String(), b.String()) })
	}
	return d
}

// repeat runs what is unexpected twice again, and alone, to tell what fails by its
// own from what fails at times, as on a busy machine. A race, a hang or a crash counts if it was
// seen once.
func (d *diff) repeat(wrapped results, run func(tests string) (results, error)) error {
	var names []string
	for _, t := range d.unexpected {
		if t.name != "" {
			names = append(names, t.name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	steady := map[test]bool{}
	for _, t := range d.unexpected {
		steady[t] = wrapped.outcome[t] == "run" || slices.ContainsFunc(wrapped.output[t], func(line string) bool { return strings.Contains(line, "race detected") })
	}
	for range 2 {
		res, err := run(alternatives(slices.Compact(names)))
		if err != nil {
			return err
		}
		for _, t := range d.unexpected {
			if o := res.outcome[t]; t.name == "" || o != "pass" && o != "skip" {
				steady[t] = true
			}
		}
	}
	d.unexpected = slices.DeleteFunc(d.unexpected, func(t test) bool {
		if !steady[t] {
			d.unsteady = append(d.unsteady, t)
		}
		return !steady[t]
	})
	return nil
}

const (
	mostShown = 20 // differences; a process that ends early makes hundreds
	mostLines = 15 // of the output of each
)

func (d *diff) print(out io.Writer, wrapped results) {
	for _, t := range d.machine {
		fmt.Fprintf(out, "  fails bare and wrapped: %s\n", t)
	}
	for _, t := range d.unsteady {
		fmt.Fprintf(out, "  unsteady, failed wrapped, and passed alone: %s\n", t)
		wrapped.print(out, t)
	}
	for i, t := range d.unexpected {
		if i == mostShown {
			fmt.Fprintf(out, "  and %d more\n", len(d.unexpected)-i)
			break
		}
		fmt.Fprintf(out, "  DIFFERENT: %s\n", t)
		wrapped.print(out, t)
	}
	if n := len(d.unexpected); n > 0 {
		fmt.Fprintf(out, "  FAIL: %d fail only when wrapped\n", n)
	} else {
		fmt.Fprintln(out, "  PASS: wrapped as bare")
	}
}

// print writes the last lines of what t has said.
func (r results) print(out io.Writer, t test) {
	lines := r.output[t]
	for _, line := range lines[max(0, len(lines)-mostLines):] {
		fmt.Fprintf(out, "      %s\n", strings.TrimRight(line, "\n"))
	}
}
