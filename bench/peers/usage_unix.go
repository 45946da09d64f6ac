//go:build unix

package main

import (
	"syscall"
	"time"
)

// takeUsage returns what this process has used until now.
func takeUsage() usage {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return usage{}
	}
	return usage{
		known:   true,
		cpu:     time.Duration(r.Utime.Nano() + r.Stime.Nano()),
		wakeups: int64(r.Nvcsw),
	}
}
