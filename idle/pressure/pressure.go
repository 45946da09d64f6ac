// Package pressure makes the limits of connections tighter while the process runs out of a
// resource, and reports how much of the resource is in use:
//
//	f, err := pressure.Follow(tracker, pressure.Config{
//		Read: pressure.Heap, From: 0.85, Full: 0.95,
//		Policy: idle.Policy{IdleTimeout: 2 * time.Second},
//	})
//
// Functions such as [Heap] return a number from 0 to 1. They fail if there is no limit, and on
// systems that don't report it, so [Follow] fails too. Any goroutine may call them.
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

// unsupported is the error on a system that doesn't report what.
func unsupported(what string) error {
	return fmt.Errorf("pressure: %s on %s: %w", what, runtime.GOOS, errors.ErrUnsupported)
}
