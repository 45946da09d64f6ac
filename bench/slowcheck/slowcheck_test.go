package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/idlewheel/idlewheel/bench/internal/program"
)

// TestFlags: bad flags are refused by name, and nobody else's server is tried by mistake.
func TestFlags(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"", "-target is missing"},
		{"-target 127.0.0.1:80", `-target is "127.0.0.1:80"`},
		{"-target tcp://127.0.0.1:80", `-target is "tcp://127.0.0.1:80"`},
		{"-target https://example.com", "say -mine"},
		{"-target http://127.0.0.1:1 -give-up 1s", "-give-up is 1s"},
		{"-target http://127.0.0.1:1 -load -1", "-load is -1"},
		{"-compare -target http://127.0.0.1:1", "exclude each other"},
		{"-target http://127.0.0.1:1", "nothing could be tried on http://127.0.0.1:1: dial tcp 127.0.0.1:1"},
		{"-target http://127.0.0.1:1 -post upload", `-post is "upload"; it must begin with a slash`},
	} {
		var stderr bytes.Buffer
		status := newProgram().Invoke(t.Context(), strings.Fields(c.args), new(bytes.Buffer), &stderr)
		if status != program.Trouble || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("%q: exit status %d, %q; want %q", c.args, status, stderr.String(), c.want)
		}
	}
}

// TestStatus: a client that holds a server with idlewheel is a failure, one that holds another
// server is a row.
func TestStatus(t *testing.T) {
	hole := []result{{slowCase: slowCase{Name: "x", Limit: header}, Outcome: held, After: 90}}
	for ours, want := range map[bool]int{true: program.Fail, false: program.Pass} {
		r := &report{Servers: []tried{{Name: "x", Results: hole, ours: ours}}}
		if got := r.Status(); got != want {
			t.Errorf("ours is %v: exit status %d, want %d", ours, got, want)
		}
	}
	var out strings.Builder
	(&report{Servers: []tried{{Name: "a", Results: hole}, {Name: "b", Missing: "it isn't there"}}}).Table(&out)
	for _, want := range []string{"1 held the server", "b was not tried: it isn't there", "header timeout"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &out)
		}
	}
}

// TestCases: each case has a name of its own, and pages that count them count right.
func TestCases(t *testing.T) {
	seen, honest := map[string]bool{}, 0
	for _, c := range cases() {
		if seen[c.Name] || c.Does == "" || c.honest != (c.Limit == "") {
			t.Errorf("%+v: twice, or incomplete", c)
		}
		seen[c.Name] = true
		if c.honest {
			honest++
		}
	}
	for _, page := range []string{"docs/slow-clients.md", "SECURITY.md"} {
		text, err := os.ReadFile("../../" + page)
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("%d slow clients and %d honest ones", len(seen)-honest, honest)
		if !strings.Contains(strings.Join(strings.Fields(string(text)), " "), want) {
			t.Errorf("%s doesn't say %q", page, want)
		}
	}
}
