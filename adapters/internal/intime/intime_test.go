//go:build proof

package intime

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

// TestLongestWait has four threads for each processor run at once, so that they wait for it in turn.
func TestLongestWait(t *testing.T) {
	spinning := 4 * runtime.NumCPU()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(spinning))
	spin := func() {
		var done sync.WaitGroup
		for range spinning {
			done.Go(func() {
				for begun := time.Now(); time.Since(begun) < 200*time.Millisecond; {
				}
			})
		}
		done.Wait()
	}
	w := waits{}
	spin() // starts the threads
	if w.longest(0); len(w) == 0 {
		t.Skip("this system doesn't tell how long threads have waited")
	}
	spin()
	if longest := w.longest(0); longest <= 0 || longest > time.Minute {
		t.Errorf("the longest wait is %v", longest)
	}
	if longest := w.longest(time.Minute); longest != 0 {
		t.Errorf("%v counts as longer than a minute", longest)
	}
}
