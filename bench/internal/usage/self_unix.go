//go:build unix

package usage

import (
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
