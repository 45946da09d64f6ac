//go:build proof

package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/idlewheel/idlewheel/bench/internal/program"
)

// TestSoak is a short one.
func TestSoak(t *testing.T) {
	var out, errs bytes.Buffer
	if status := newProgram().Invoke(t.Context(), strings.Fields("-duration 6s -conns 120"), &out, &errs); status != program.Pass {
		t.Errorf("status %d:\n%s%s", status, &out, &errs)
	}
}
