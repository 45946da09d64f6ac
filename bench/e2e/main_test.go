package main

import (
	"os"
	"testing"

	"github.com/idlewheel/idlewheel/bench/internal/child"
)

// TestMain lets the test's binary be a server process, as the program itself is
// otherwise.
func TestMain(m *testing.M) {
	child.Main(roles())
	os.Exit(m.Run())
}
