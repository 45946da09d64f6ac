package main

import (
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
	for _, name := range serverNames() {
		r, err := compare(name, cfg)
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
		want := "bare own ours"
		if name == "gnet" {
			want = "bare ours"
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: variants %s, want %s", name, got, want)
		}
	}
}

func TestParse(t *testing.T) {
	cfg, err := parse(strings.Fields("-server all -conns 7 -rounds 3 -duration 2s -size 9 -json -html x"))
	if want := (config{"all", 7, 3, 2 * time.Second, 9, true, "x"}); err != nil || cfg != want {
		t.Errorf("got %+v, %v", cfg, err)
	}
	for _, c := range []struct{ args, want string }{
		{"-server nginx", `-server is "nginx"; it must be one of fasthttp, gnet, http, https, net, or all`},
		{"-conns 0", "-conns is 0"},
		{"-rounds 0", "-rounds is 0"},
		{"-duration 1ms", "-duration is 1ms"},
		{"-size 5000", "-size is 5000"},
		{"net", `unexpected argument "net"`},
	} {
		if _, err := parse(strings.Fields(c.args)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %s", c.args, err, c.want)
		}
	}
}
