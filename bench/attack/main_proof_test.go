//go:build proof

package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/attack"
	"github.com/idlewheel/idlewheel/bench/internal/server"
)

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
