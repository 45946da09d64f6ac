package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/attack"
	"github.com/idlewheel/idlewheel/bench/internal/child"
	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/server"
)

func TestMain(m *testing.M) {
	child.Main(map[string]child.Role{attack.Role: attack.Serve})
	os.Exit(m.Run())
}

// invoke runs the program with args.
func invoke(args string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = newProgram(new(attack.Config)).Invoke(context.Background(), strings.Fields(args), &out, &errs)
	return status, out.String(), errs.String()
}

const tiny = "-attackers 20 -honest 4 -duration 2s -patience 2s -every 100ms " +
	"-late 30s -header 200ms -body 200ms -write 200ms -keepalive 300ms -grace 200ms -rate 2400 -write-rate 10000"

// longestStall returns a function that ends the measuring of how long, at most,
// the process has been kept from running.
func longestStall() func() time.Duration {
	stop, longest := make(chan struct{}), make(chan time.Duration)
	go func() {
		most := time.Duration(0)
		for {
			begun := time.Now()
			select {
			case <-stop:
				longest <- most
				return
			case <-time.After(10 * time.Millisecond):
				most = max(most, time.Since(begun))
			}
		}
	}()
	return func() time.Duration { close(stop); return <-longest }
}

func TestAttack(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("runs on Linux only")
	}
	for _, server := range attack.Servers() {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			stall := longestStall()
			status, stdout, stderr := invoke("-json -server " + server + " " + tiny)
			longest := stall()
			if stderr != "" {
				t.Errorf("wrote to stderr: %s", stderr)
			}
			var r attack.Report
			d := json.NewDecoder(strings.NewReader(stdout))
			if err := d.Decode(&r); err != nil {
				t.Fatalf("%v in %q", err, stdout)
			}
			if d.More() {
				t.Error("wrote more than one object")
			}
			if len(r.Runs) != 6 {
				t.Fatalf("%d runs", len(r.Runs))
			}
			var wrong []string
			if status != program.Pass || !r.Passed {
				wrong = append(wrong, fmt.Sprintf("status %d: %q", status, r.Faults))
			}
			for i := range r.Runs {
				wrong = append(wrong, checkRun(t, &r, i)...)
			}
			switch text := strings.Join(wrong, "\n"); {
			case text == "":
			case longest > 100*time.Millisecond: // half of a limit
				t.Skipf("inconclusive: the machine kept the clients waiting for %v\n%s", longest, text)
			default:
				t.Error(text)
			}
		})
	}
}

// checkRun checks what is the case however slow the machine is, and returns what
// is wrong if it has let the clients be in time.
func checkRun(t *testing.T, r *attack.Report, i int) (wrong []string) {
	t.Helper()
	o := r.Runs[i]
	name := o.Variant + ", " + o.Descriptors
	attackers, cut, holding := 0, 0, 0
	for _, d := range o.Attacks {
		attackers += d.Attackers
		cut += d.Cut
		holding += d.Holding
	}
	if attackers != 20 || cut+holding != attackers {
		t.Errorf("%s: %d attackers, %d cut, %d holding", name, attackers, cut, holding)
	}
	late := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	switch {
	case o.Variant == server.Bare && cut > 0:
		t.Errorf("%s: %d were cut", name, cut)
	case o.Variant == server.Bare && o.Descriptors == "scarce" && o.Honest.Failed != o.Honest.Requests:
		late("%s: %d of %d honest requests failed", name, o.Honest.Failed, o.Honest.Requests)
	case o.Variant == server.Bare && o.Full.Open < attackers:
		late("%s: only %d connections when all had come", name, o.Full.Open)
	case o.Variant == server.Ours && holding > 0:
		late("%s: %d hold on", name, holding)
	}
	if o.Honest.Requests == 0 {
		late("%s: there was no honest request", name)
	}
	if o.End.RSS == 0 || o.Full.Goroutines == 0 {
		t.Errorf("%s: %+v, %+v", name, o.Full, o.End)
	}
	return wrong
}

func TestWrongFlags(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"-server nginx", `-server is "nginx"; it must be one of http, https, fasthttp`},
		{"-attackers 0", "-attackers is 0"},
		{"-attackers many", `"many" for flag -attackers`},
		{"-honest -1", "-honest is -1"},
		{"-rate 1", "-rate is 1"},
		{"-write-rate 2000000000", "-write-rate is 2000000000"},
		{"-header 1ms", "-header is 1ms"},
		{"-body 0", "-body is 0s"},
		{"-grace 2h", "-grace is 2h0m0s"},
		{"-patience 1ms", "-patience is 1ms"},
		{"-late 0", "-late is 0s"},
		{"-every 2s", "-every is 2s; it must be 1ms to 1.5s, so that honest clients stay below -keepalive 3s"},
		{"-duration 5s", "-duration is 5s; it must be "},
		{"-duration 2h", "-duration is 2h0m0s"},
		{"-sever http", "-sever"},
		{"http", `"http"`},
	} {
		status, stdout, stderr := invoke(c.args)
		if status != program.Trouble || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: status %d, %q on stdout, %q on stderr; want %q", c.args, status, stdout, stderr, c.want)
		}
	}
}
