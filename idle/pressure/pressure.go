// Package pressure tells how much of a resource the process has in use. Its functions
// return a number from 0 to 1, and are for the field Read of an idle.Pressure:
//
//	err := tracker.SetPressure(idle.Pressure{
//		Read: pressure.Heap, From: 0.85, Upto: 0.95,
//		Policy: idle.Policy{IdleTimeout: 2 * time.Second},
//	})
//
// They fail where there is no limit, and on systems that do not tell. So SetPressure
// fails there. Any goroutine may call them.
package pressure

import (
	"errors"
	"fmt"
	"runtime"
)

// share returns used/limit, and 1 at most.
func share(used, limit uint64) float64 {
	if used >= limit {
		return 1
	}
	return float64(used) / float64(limit)
}

// unsupported is the error on a system that does not tell.
func unsupported(what string) error {
	return fmt.Errorf("pressure: %s on %s: %w", what, runtime.GOOS, errors.ErrUnsupported)
}
