package faults

import (
	"testing"
	"time"
)

// patience is how long is waited for what has to happen. Nothing depends on how
// long it takes.
const patience = 30 * time.Second

// limit is what servers here allow: long against the moments for which a busy
// machine lets nobody run, short against a person's patience.
const limit = time.Second

// soon returns what comes from a channel.
func soon[T any](t *testing.T, ch <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(patience):
		t.Fatalf("no %s within %v", what, patience)
	}
	return v
}
