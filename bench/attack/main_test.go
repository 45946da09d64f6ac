package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
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

const tiny = "-attackers 60 -honest 4 -duration 2s -patience 2s -every 100ms " +
	"-late 30s -header 200ms -body 200ms -write 200ms -keepalive 300ms -grace 200ms -rate 2400 -write-rate 200000"

// TestAttack checks what is the case however slow the machine is. What the report
// finds of ours counts only if the machine had the time for it.
func TestAttack(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("runs on Linux only")
	}
	var stall atomic.Int64 // how long, at most, the process has been kept from running
	go func() {
		for begun := time.Now(); ; begun = time.Now() {
			time.Sleep(10 * time.Millisecond)
			stall.Store(max(stall.Load(), int64(time.Since(begun))))
		}
	}()
	for _, name := range attack.Servers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, stdout, stderr := invoke("-json -server " + name + " " + tiny)
			var r attack.Report
			if err := json.Unmarshal([]byte(stdout), &r); err != nil || stderr != "" || len(r.Runs) != 6 {
				t.Fatalf("%v, %q, %d runs in %q", err, stderr, len(r.Runs), stdout)
			}
			wrong := r.Faults
			for _, o := range r.Runs {
				attackers, cut, others := 0, 0, 0
				for _, d := range o.Attacks {
					attackers += d.Attackers
					cut += d.Cut
					others += d.Holding + d.Refused
					// net/http gives a client 2 s for the preface of HTTP/2, and 10 s for what it takes for HTTP/1.
					if byItself := d.Case == "h2-preface-stops" || d.Case == "h2-no-preface"; o.Variant == server.Bare && d.Cut > 0 && !byItself {
						t.Errorf("bare, %s: %d of %s are cut", o.Descriptors, d.Cut, d.Case)
					}
				}
				if attackers != 60 || cut+others != attackers || o.End.RSS == 0 || o.Full.Goroutines == 0 {
					t.Errorf("%s, %s: %d attackers, %d cut, %d others; %+v, %+v", o.Variant, o.Descriptors, attackers, cut, others, o.Full, o.End)
				}
				if o.Honest.Requests == 0 || o.Full.Open == 0 || o.Variant == server.Ours && cut == 0 {
					wrong = append(wrong, fmt.Sprintf("%s, %s: %d cut; %+v, %+v", o.Variant, o.Descriptors, cut, o.Honest, o.Full))
				}
			}
			switch longest := time.Duration(stall.Load()); {
			case len(wrong) == 0:
			case longest > 100*time.Millisecond: // half of a limit
				t.Skipf("inconclusive: the machine kept the clients waiting for %v: %q", longest, wrong)
			default:
				t.Errorf("%q", wrong)
			}
		})
	}
}

func TestWrongFlags(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"-server nginx", `-server is "nginx"; it must be one of http, https, fasthttp`},
		{"-attackers 0", "-attackers is 0"},
		{"-attackers many", `"many" for flag -attackers`},
		{"-rate 1", "-rate is 1"},
		{"-header 1ms", "-header is 1ms"},
		{"-every 2s", "-every is 2s; it must be 1ms to 1.5s, so that honest clients stay below -keepalive 3s"},
		{"-duration 5s", "-duration is 5s; it must be "},
		{"-sever http", "-sever"},
		{"-server net", `-server is "net"`},
		{"-capacity 1ms", "-capacity is 1ms"},
		{"http", `"http"`},
	} {
		status, stdout, stderr := invoke(c.args)
		if status != program.Trouble || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: status %d, %q on stdout, %q on stderr; want %q", c.args, status, stdout, stderr, c.want)
		}
	}
}
