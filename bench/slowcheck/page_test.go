package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/idlewheel/idlewheel/bench/internal/slow"
)

var update = flag.Bool("update", false, "write the tables of docs/slow-clients.md")

// TestPage: the tables of the page are those of the results.
func TestPage(t *testing.T) {
	const page, results = "../../docs/slow-clients.md", "../results/slow-clients.json"
	var r report
	data, err := os.ReadFile(results)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), "<!-- begin -->\n")
	_, after, ended := strings.Cut(rest, "<!-- end -->")
	if !found || !ended {
		t.Fatal("the page has no marks")
	}
	want := before + "<!-- begin -->\n" + r.markdown() + "<!-- end -->" + after
	switch {
	case *update:
		err = os.WriteFile(page, []byte(want), 0o644)
	case string(text) != want:
		t.Errorf("the tables of %s aren't those of %s; go -C bench test ./slowcheck -run TestPage -update writes them", page, results)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestCounts: how many cases and servers there are is also said in sentences.
func TestCounts(t *testing.T) {
	attacks, controls := 0, 0
	for _, c := range slow.Cases() {
		if c.Control() {
			controls++
		} else {
			attacks++
		}
	}
	for page, says := range map[string][]string{
		"docs/slow-clients.md": {fmt.Sprintf("tries %d kinds of slow clients", attacks), fmt.Sprintf("It also tries %d kinds of honest clients", controls)},
		"SECURITY.md":          {fmt.Sprintf("has %d slow clients and %d honest ones", attacks, controls)},
	} {
		text, err := os.ReadFile("../../" + page)
		if err != nil {
			t.Fatal(err)
		}
		words := strings.Join(strings.Fields(string(text)), " ")
		for _, s := range says {
			if !strings.Contains(words, s) {
				t.Errorf("%s doesn't say %q", page, s)
			}
		}
	}
}

// markdown returns a table of the servers, and one of the cases that says after how many seconds
// each server has ended a case.
func (r *report) markdown() string {
	var b strings.Builder
	if m := r.Machine; m != nil {
		fmt.Fprintf(&b, "Measured on %s at commit %s, with %s on %d cores of an %s.\n\n", m.Date, m.Commit, m.Go, m.Cores, m.CPU)
	}
	b.WriteString("| server | version | configuration | ended | held | honest served | honest cut |\n|---|---|---|---|---|---|---|\n")
	for _, s := range r.Servers {
		n := s.counts()
		fmt.Fprintf(&b, "| %s | %s | %s | %d | %d | %d | %d |\n", s.Name, s.Version, s.Config, n[slow.Ended], n[slow.Held], n[slow.Passed], n[slow.Cut])
	}
	for _, m := range r.Missing {
		fmt.Fprintf(&b, "\nNot tried: %s\n", m)
	}
	b.WriteString("\n| case |")
	for _, s := range r.Servers {
		fmt.Fprintf(&b, " %s |", s.Name)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(r.Servers)) + "\n")
	for _, row := range r.rows() {
		name := row.Name
		if row.Control() {
			name = "*" + name + "*"
		}
		fmt.Fprintf(&b, "| %s |", name)
		for _, c := range row.Cells {
			fmt.Fprintf(&b, " %s |", cell(c))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// cell says in a word what has become of a case.
func cell(r slow.Result) string {
	switch {
	case r.Outcome == slow.Ended && r.After == 0:
		return "yes"
	case r.Outcome == slow.Ended:
		return fmt.Sprintf("%.0f", r.After)
	case r.Outcome == slow.Held, r.Outcome == slow.Cut:
		return "**" + r.Outcome + "**"
	case r.Outcome == slow.Passed:
		return "ok"
	}
	return ""
}
