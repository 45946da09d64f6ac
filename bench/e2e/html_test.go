package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/idlewheel/idlewheel/bench/internal/machine"
)

// exampleReport has a server with timeouts of its own, and one without.
func exampleReport() *report {
	all := example()
	return &report{
		Machine: machine.Machine{CPU: "abacus", Go: "go1", Commit: "abc", Modules: map[string]string{"gnet": "v2"}},
		Servers: []result{
			summarize("http", config{conns: 4, rounds: 3}, all),
			summarize("gnet", config{conns: 4, rounds: 3}, []*contender{all[0], all[2]}),
		},
		cfg: config{server: "all", conns: 4, rounds: 3},
	}
}

func TestPage(t *testing.T) {
	var out bytes.Buffer
	if err := exampleReport().page().Write(&out); err != nil {
		t.Fatal(err)
	}
	html := out.String()
	for _, want := range []string{
		"abacus", "go1", "commit abc", "gnet v2", "http: requests a second", "gnet: CPU time a request", ">ours<", "http: requests a second; 4 connections, 3 rounds", "no difference is shown", "</html>",
	} {
		if !strings.Contains(html, want) {
			t.Errorf("the page has no %s", want)
		}
	}
	if n := strings.Count(html, "<svg"); n != 4 {
		t.Errorf("%d plots, want two a server", n)
	}
}

func TestJSON(t *testing.T) {
	all, one := exampleReport(), exampleReport()
	one.cfg.server, one.Servers = "http", all.Servers[:1]
	for _, c := range []struct {
		of      *report
		servers int // 0: the object is the server
	}{{all, 2}, {one, 0}} {
		text, err := json.Marshal(c.of)
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Machine machine.Machine
			Servers []result
			result
		}
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		if got.Machine.Commit != "abc" || got.Machine.CPU != "abacus" || got.Machine.Modules["gnet"] != "v2" {
			t.Errorf("the machine is %+v", got.Machine)
		}
		if c.servers == 0 && (got.Server != "http" || len(got.Variants) != 3) || len(got.Servers) != c.servers {
			t.Errorf("got %s", text)
		}
	}
}
