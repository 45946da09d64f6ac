//go:build idletrace && proof

package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

var (
	traced   = flag.Int("traced", 100_000, "how many steps TestTraces checks")
	sample   = flag.Uint64("sample", 1, "it records one of so many connections")
	duration = flag.Duration("duration", 5*time.Second, "how long each of its soaks lasts")
	conns    = flag.Int("conns", 60, "how many clients it has at a time")
)

// TestTraces records what soaks do to the words of connections, and checks whether the model allows
// it; see docs/correctness.md. Only the traces are checked: the records pass for a leak, and recording
// slows both sides down.
func TestTraces(t *testing.T) {
	idle.TraceAll(t, *traced, *sample, func() {
		_, stdout, stderr := invoke(t.Context(), fmt.Sprintf("-duration %v -conns %d -slack 20s -json", *duration, *conns))
		var r report
		if err := json.Unmarshal([]byte(stdout), &r); err != nil {
			t.Fatalf("%v: %s", err, stderr)
		}
		t.Logf("%d connections served, %d violations: %q", r.Served, r.Violated, r.FirstOnes)
	})
}
