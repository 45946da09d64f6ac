//go:build unix

package idle

import (
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// BenchmarkWakeUp is what the driver costs with each tick while the clock runs:
// cpu-ns/tick. An operation is 50 ticks.
func BenchmarkWakeUp(b *testing.B) {
	t, err := New(Policy{IdleTimeout: time.Hour}, &Options{Tick: time.Millisecond})
	if err != nil {
		b.Fatal(err)
	}
	defer t.Close()
	t.clock.Tune(clock.Tuning{Each: never / 2}) // no tick is quiet
	t.clock.Read()                              // wakes it
	before, begun := cpuTime(b), t.clock.Now()
	for b.Loop() {
		time.Sleep(50 * time.Millisecond)
	}
	b.ReportMetric(float64(cpuTime(b)-before)/float64(t.clock.Now()-begun), "cpu-ns/tick")
}
