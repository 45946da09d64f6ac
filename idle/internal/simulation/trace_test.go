//go:build idletrace

package simulation

import (
	"flag"
	"testing"

	"github.com/idlewheel/idlewheel/idle"
)

var traced = flag.Int("traced", 100_000, "how many steps TestTracesOfSimulation checks")

// TestTracesOfSimulation records what worlds do to the words of connections, and checks whether the
// model allows it.
func TestTracesOfSimulation(t *testing.T) {
	seed := int64(0)
	idle.TraceAll(t, *traced, 1, func() {
		faults, _ := playTrace(t, seed, traceOf(seed, 1000), nil)
		for _, f := range faults {
			t.Error(f.text)
		}
		seed++
	})
}
