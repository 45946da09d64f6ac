//go:build proof

package kernel

import (
	"testing"
	"time"
)

// patience is how long a test waits for what must happen.
const patience = 2 * time.Minute

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// waiterFunc is a Waiter that is a function.
type waiterFunc func(n int)

func (f waiterFunc) WriteWaits(n int) { f(n) }
