package main

import (
	"flag"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/server"
)

func TestIdleFlags(t *testing.T) {
	for args, want := range map[string]string{
		"-idle 15s":                     "",
		"-idle 15s -rates 10,20000":     "",
		"-idle 15s -rates 9":            "-rates is 9; it must be 10 to 20000 each",
		"-idle 15s -rates 10,20001":     "-rates is 20001; it must be 10 to 20000 each",
		"-idle 15s -rates 10,":          `"" is not a number`,
		"-idle 2m":                      "-idle is 2m0s; it must be 100ms to 1m0s",
		"-idle -1s":                     "-idle is -1s; it must be 100ms to 1m0s",
		"-idle 15s -server https":       "-server is https",
		"-idle 15s -server gnet -conns": "flag needs an argument",
	} {
		err := newProgram(&config{}).Parse(strings.Fields(args))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", args, err, want)
		}
	}
}

func TestIdling(t *testing.T) {
	var c config
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	c.define(fs)
	if err := fs.Parse([]string{"-idle", "3s", "-rounds", "40", "-server", "all"}); err != nil {
		t.Fatal(err)
	}
	if got := c.idling(100); got.conns != idleConns || got.rounds != 4 || got.duration != 3*time.Second || got.pace != 100 {
		t.Errorf("got %+v", got)
	}
	if kinds := c.servers(); slices.Contains(kinds, server.HTTPS) || len(kinds) != 4 {
		t.Errorf("servers %v", kinds)
	}
	// 11 variants, 4 rates, 4 rounds, 3 s and a turn, half a second to connect
	if got := c.estimate(); got != 722*time.Second {
		t.Errorf("it takes %v", got)
	}
}

func TestWriteIdle(t *testing.T) {
	all := example()
	for _, c := range all { // ms, so that there is something to see
		for i := range c.cpu {
			c.cpu[i] *= 1e6
		}
	}
	text := written(result{Server: "net", Conns: 3000, Rounds: 3, Idle: []calm{{100, summarize("net", config{}, all).Variants}}})
	for _, want := range []string{"3,000 connections, rounds: 3", "100    bare  1,000", "ours  1,080", "1,550\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}
