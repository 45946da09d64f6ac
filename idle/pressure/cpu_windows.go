package pressure

import (
	"fmt"
	"syscall"
	"time"
)

// cpuUsed returns the CPU time of the process so far, that of the kernel for it included.
func cpuUsed() (time.Duration, error) {
	process, err := syscall.GetCurrentProcess()
	var created, exited, kernel, user syscall.Filetime
	if err == nil {
		err = syscall.GetProcessTimes(process, &created, &exited, &kernel, &user)
	}
	if err != nil {
		return 0, fmt.Errorf("pressure: CPU time of the process: %w", err)
	}
	return steps(kernel) + steps(user), nil
}

// steps returns a duration that is given in steps of 100 ns.
func steps(t syscall.Filetime) time.Duration {
	return time.Duration(int64(t.HighDateTime)<<32|int64(t.LowDateTime)) * 100
}
