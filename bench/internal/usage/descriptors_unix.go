//go:build unix

package usage

import "syscall"

// DescriptorLimit returns how many descriptors a process may have. The Go
// runtime has raised the limit as far as it can.
func DescriptorLimit() uint64 {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return unlimited
	}
	return uint64(r.Cur)
}
