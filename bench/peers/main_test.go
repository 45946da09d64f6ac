package main

import (
	"os"
	"testing"

	"github.com/idlewheel/idlewheel/bench/internal/child"
)

// TestMain lets the test's binary run a turn, as the program itself does
// otherwise.
func TestMain(m *testing.M) {
	child.Main(roles())
	os.Exit(m.Run())
}
