//go:build unix

package usage

import (
	"math"
	"syscall"
	"time"
)

// Self returns what this process has used until now.
func Self() Usage {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return Usage{}
	}
	return Usage{Known: true, CPU: time.Duration(r.Utime.Nano() + r.Stime.Nano()), Wakeups: int64(r.Nvcsw)}
}

// Descriptors returns how many descriptors this process may have. The Go runtime
// has raised the limit as far as it can.
func Descriptors() uint64 {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return math.MaxUint64
	}
	return uint64(r.Cur)
}
