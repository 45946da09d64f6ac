//go:build proof

package contender

import (
	"sync/atomic"
	"testing"
	"time"
)

// TestContenders has each of them time five connections, of which one is
// cancelled and one never armed. When it does so is for the workloads to judge.
func TestContenders(t *testing.T) {
	for _, k := range All() {
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			const timeout = time.Second
			begun := time.Now()
			var expired [5]atomic.Int32
			var sum atomic.Int32
			c, err := k.New(5, timeout, func(i int) {
				expired[i].Add(1)
				sum.Add(1)
			})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			for _, i := range []int{0, 1, 2, 3} {
				c.Arm(i)
			}
			c.Cancel(1)
			c.Touch([]uint32{0, 2, 0})
			c.Cancel(3)
			c.Arm(3)
			if took := time.Since(begun); took > timeout/2 {
				t.Skipf("inconclusive: the machine needed %v for that", took)
			}
			deadline := time.Now().Add(20 * time.Second)
			for sum.Load() < 3 && time.Now().Before(deadline) {
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(200 * time.Millisecond) // for what should not come
			for i, want := range []int32{1, 0, 1, 1, 0} {
				if got := expired[i].Load(); got != want {
					t.Errorf("connection %d expired %d times, want %d", i, got, want)
				}
			}
		})
	}
}
