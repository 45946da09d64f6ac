package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/field"
	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/slow"
)

// TestFlags: bad flags are refused by name, and nobody else's server is tried by mistake.
func TestFlags(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"", "-target is missing"},
		{"-target 127.0.0.1:80", `-target: it is "127.0.0.1:80"`},
		{"-target tcp://127.0.0.1", "a tcp target needs a port"},
		{"-target https://example.com", "say -mine"},
		{"-target http://127.0.0.1:1 -protocol h3", `-protocol is "h3"`},
		{"-target http://127.0.0.1:1 -give-up 1s", "-give-up is 1s"},
		{"-target http://127.0.0.1:1 -at-once 1000", "-at-once is 1000"},
		{"-field -servers iis", `-servers is "iis"`},
		{"-field -target http://127.0.0.1:1", "exclude each other"},
		{"-target http://127.0.0.1:1 -post upload", `-post is "upload"; it must begin with a slash`},
		{"-target http://127.0.0.1:1 -protocol h1", "no case could be tried on http://127.0.0.1:1: dial tcp 127.0.0.1:1"},
		{"-target http://127.0.0.1:1 -protocol ws", "no case could be tried"},
	} {
		var stderr bytes.Buffer
		status := newProgram(&config{}).Invoke(t.Context(), strings.Fields(c.args), new(bytes.Buffer), &stderr)
		if status != program.Trouble || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("%q: exit status %d, %q; want %q", c.args, status, stderr.String(), c.want)
		}
	}
	if err := newProgram(&config{}).Parse(strings.Fields("-target https://example.com -mine")); err != nil {
		t.Error(err)
	}
}

// TestReport: a hole of a server with idlewheel is a failure, one of another server is a row.
func TestReport(t *testing.T) {
	hole := []slow.Result{{Case: slow.Case{Name: "x", Limit: slow.Header}, Outcome: slow.Held, After: 90}}
	for server, want := range map[string]int{"idlehttp": program.Fail, "nginx": program.Pass} {
		r := &report{Servers: []tried{{Name: server, Results: hole}}, failIf: field.IsOurs}
		if got := r.Status(); got != want {
			t.Errorf("%s: exit status %d, want %d", server, got, want)
		}
	}
	r := &report{Servers: []tried{{Name: "a", Results: hole}, {Name: "b", Results: []slow.Result{{Case: slow.Case{Name: "x", Limit: slow.Header}, Outcome: slow.Ended, By: "FIN", After: 2 * time.Second.Seconds()}}}}}
	if got := r.markdown(); !strings.Contains(got, "| x | **held** | 2 |") {
		t.Error(got)
	}
	var html bytes.Buffer
	if err := writePage(&html, r); err != nil || !strings.Contains(html.String(), `class="held"`) {
		t.Errorf("%v\n%s", err, html.String())
	}
}
