package kernel

import (
	"sync"
	"sync/atomic"
	"testing"
)

// TestCredit: each byte is taken once, whatever the order in which the numbers come.
func TestCredit(t *testing.T) {
	var c Credit
	for _, step := range []struct {
		acked uint64
		want  int
	}{{5, 5}, {5, 0}, {3, 0}, {12, 7}} {
		if got := c.Take(step.acked); got != step.want {
			t.Errorf("Take(%d) = %d, want %d", step.acked, got, step.want)
		}
	}
	var sum atomic.Int64
	var wait sync.WaitGroup
	for i := range uint64(4) {
		wait.Go(func() {
			for acked := 12 + i; acked <= 4012; acked += 4 {
				sum.Add(int64(c.Take(acked)))
			}
			sum.Add(int64(c.Take(4012)))
		})
	}
	if wait.Wait(); sum.Load() != 4000 {
		t.Errorf("taken: %d of 4000", sum.Load())
	}
}
