//go:build proof

package main

import (
	"encoding/json"
	"testing"
)

// TestRestart: no request fails through three restarts.
func TestRestart(t *testing.T) {
	status, stdout, stderr := invoke("-restarts 3 -clients 4 -lame-duck 2s -drain 500ms -json")
	var r report
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || stderr != "" {
		t.Fatalf("%v, %q in %q", err, stderr, stdout)
	}
	if status != 0 || len(r.Faults) > 0 {
		t.Errorf("status %d: %q", status, r.Faults)
	}
	for _, k := range r.Kinds {
		if k.Failed > 0 || k.Requests < 4 || k.Connections < 4 {
			t.Errorf("%+v", k)
		}
	}
}
