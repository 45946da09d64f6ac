//go:build !unix

package machine

import (
	"math"
	"time"
)

// Self returns the CPU time of this process, which isn't known here.
func Self() time.Duration { return 0 }

// Descriptors returns how many descriptors this process may have, which isn't known here.
func Descriptors() uint64 { return math.MaxUint64 }
