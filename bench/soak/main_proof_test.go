//go:build proof

package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/program"
)

func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	status, stdout, stderr := invoke(t.Context(), "-duration 5s -conns 60 -slack 20s -json")
	var r map[string]any
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || status != program.Pass || stderr != "" {
		t.Errorf("status %d, %s, %s", status, stderr, stdout)
	}
	if n := len(r["servers"].([]any)); n != len(kinds()) {
		t.Errorf("%d servers, want %d", n, len(kinds()))
	}
	for _, s := range r["servers"].([]any) {
		s := s.(map[string]any)
		if s["tracked"] == 0.0 || len(s["timed_out"].(map[string]any)) == 0 {
			t.Errorf("%v: nothing happened", s)
		}
	}
}

func TestInterruption(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	status, stdout, stderr := invoke(ctx, "-duration 1h -conns 6 -slack 20s -servers idlenet,http2")
	if status != program.Pass || !strings.Contains(stdout, "Interrupted") {
		t.Errorf("status %d, %s%s", status, stdout, stderr)
	}
}
