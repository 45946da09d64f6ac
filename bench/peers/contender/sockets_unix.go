//go:build unix

package contender

import "syscall"

// spareDescriptors are left to everything else that a process opens.
const spareDescriptors = 100

// mostSockets returns how many sockets a process may have. The Go runtime has
// raised the limit as far as it can.
func mostSockets() int {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return mostPorts
	}
	return int(max(1, min(int64(min(uint64(r.Cur), mostPorts)), mostPorts)-spareDescriptors))
}
