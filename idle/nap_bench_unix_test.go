//go:build unix

package idle

import (
	"testing"
	"time"
)

// BenchmarkWakeUp is what the driver costs with each tick while the clock runs:
// cpu-ns/tick. An operation is 50 ticks.
func BenchmarkWakeUp(b *testing.B) {
	t, err := New(Policy{IdleTimeout: time.Hour}, &Options{Tick: time.Millisecond})
	if err != nil {
		b.Fatal(err)
	}
	defer t.Close()
	t.vigil.few = 0 // no tick is quiet
	t.clock.mu.Lock()
	t.clock.wake()
	t.clock.mu.Unlock()
	before, begun := cpuTime(b), t.clock.now()
	for b.Loop() {
		time.Sleep(50 * time.Millisecond)
	}
	b.ReportMetric(float64(cpuTime(b)-before)/float64(t.clock.now()-begun), "cpu-ns/tick")
}
