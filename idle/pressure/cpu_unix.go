//go:build unix

package pressure

import (
	"fmt"
	"syscall"
	"time"
)

// cpuUsed returns the CPU time of the process so far, that of the kernel for it included.
func cpuUsed() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("pressure: CPU time of the process: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}
