package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test's binary be a server process, as the program itself is
// otherwise.
func TestMain(m *testing.M) {
	if variant := os.Getenv(serveEnv); variant != "" {
		exit(serve(variant))
	}
	os.Exit(m.Run())
}

func TestServers(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("runs on Linux only")
	}
	cfg := config{conns: 4, rounds: 2, duration: 20 * time.Millisecond, size: 64}
	core, err := allot()
	if err != nil {
		t.Fatal(err)
	}
	one, err := start("net", "bare", core, cfg)
	if one != nil {
		defer one.stop()
	}
	if err != nil {
		t.Fatal(err)
	}
	theirs, ours := coresOf(t, one.cmd.Process.Pid), coresOf(t, os.Getpid())
	if runtime.NumCPU() > 1 && theirs == ours || strings.ContainsAny(theirs+ours, ",-") {
		t.Errorf("servers may use cores %s, the load cores %s", theirs, ours)
	}
	cfg.stream = true
	for _, name := range serverNames() {
		r, err := compare(name, core, cfg)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var names []string
		for _, v := range r.Variants {
			names = append(names, v.Name)
			if v.OpsPerS.Min <= 0 || v.CPUPerOp.Min <= 0 || v.RatioToBare <= 0 || v.CPURatioToBare <= 0 {
				t.Errorf("%s: %+v", name, v)
			}
		}
		want := "bare own ours no-stream"
		if name == "gnet" {
			want = "bare ours"
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: variants %s, want %s", name, got, want)
		}
	}
}

// coresOf returns which cores a process may use.
func coresOf(t *testing.T, pid int) string {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, cores, _ := strings.Cut(string(status), "Cpus_allowed_list:")
	cores, _, _ = strings.Cut(cores, "\n")
	return strings.TrimSpace(cores)
}

func TestParse(t *testing.T) {
	cfg, err := parse(strings.Fields("-server all -conns 7 -rounds 3 -duration 2s -size 9 -json -html x -stream"))
	if want := (config{"all", 7, 3, 2 * time.Second, 9, true, "x", true}); err != nil || cfg != want {
		t.Errorf("got %+v, %v", cfg, err)
	}
	for _, c := range []struct{ args, want string }{
		{"-server nginx", `-server is "nginx"; it must be one of fasthttp, gnet, http, https, net, or all`},
		{"-conns 0", "-conns is 0"},
		{"-rounds 0", "-rounds is 0"},
		{"-duration 1ms", "-duration is 1ms"},
		{"-size 5000", "-size is 5000"},
		{"-server gnet -stream", "-stream is set, and -server is gnet"},
		{"net", `unexpected argument "net"`},
	} {
		if _, err := parse(strings.Fields(c.args)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %s", c.args, err, c.want)
		}
	}
}
