//go:build unix

package machine

import (
	"math"
	"syscall"
	"time"
)

// Self returns the CPU time of this process, or 0 if that isn't known.
func Self() time.Duration {
	var r syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// Descriptors returns how many descriptors this process may have. The Go runtime has
// raised the limit as far as it can.
func Descriptors() uint64 {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return math.MaxUint64
	}
	return uint64(r.Cur)
}
