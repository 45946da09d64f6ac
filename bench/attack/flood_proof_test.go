//go:build proof

package main

import (
	"encoding/json"
	"runtime"
	"testing"

	"github.com/idlewheel/idlewheel/bench/internal/attack"
)

// TestFlood checks what is the case however slow the machine is: a bare server serves no
// newcomer, and nobody loses a connection within the grace.
func TestFlood(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("runs on Linux only")
	}
	t.Parallel()
	_, stdout, stderr := invoke("-json -server net -capacity 500ms -attackers 100 -honest 4 -duration 3s")
	var r attack.Report
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || stderr != "" || len(r.Floods) != 6 {
		t.Fatalf("%v, %q, %d floods in %q", err, stderr, len(r.Floods), stdout)
	}
	for _, f := range r.Floods {
		served := f.Newcomers.Requests - f.Newcomers.Failed
		if limited := f.Variant == "evicting" || f.Variant == "per key"; limited != (served > 0) && f.Variant != "most" || f.Kept < f.Idle {
			t.Errorf("%+v", f)
		}
	}
}
