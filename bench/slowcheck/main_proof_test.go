//go:build proof

package main

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/idlewheel/idlewheel/bench/internal/field"
	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/slow"
)

// TestTarget tries a server that has no timeouts, as a stranger would.
func TestTarget(t *testing.T) {
	open, err := field.Guarded(0)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Stop()
	var stdout, stderr bytes.Buffer
	args := []string{"-target", "https://" + open.Targets[0].Address, "-protocol", "h1,tls", "-give-up", "6s", "-json"}
	if status := newProgram(&config{}).Invoke(t.Context(), args, &stdout, &stderr); status != program.Fail {
		t.Errorf("exit status %d: %s", status, stderr.String())
	}
	var r report
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	outcomes := map[string]string{}
	for _, res := range r.Servers[0].Results {
		outcomes[res.Name] = res.Outcome
	}
	for name, want := range map[string]string{"h1-header-stops": slow.Held, "tls-silence": slow.Held, "h1-body-stops": slow.Skipped, "h1-slow-header": slow.Passed} {
		if outcomes[name] != want {
			t.Errorf("%s is %s; want %s", name, outcomes[name], want)
		}
	}
}
