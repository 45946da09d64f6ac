//go:build darwin || dragonfly || freebsd || netbsd || openbsd || idleother

package kernel

// The tag idleother builds this package on Linux as for another system, to test there what the
// adapters do if the kernel reports so little.

import "golang.org/x/sys/unix"

// SeesOutput reports whether Inspect fills in Out and Acked of TCP sockets. If it doesn't,
// netconn writes in small steps, and counts each step that the kernel accepts as progress.
const SeesOutput = false

// Inspect reports whether the socket has unread input. It peeks at one byte.
func Inspect(fd uintptr) (r Report) {
	var b [1]byte
	n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	if err == nil {
		r.Unread = n
	}
	return r
}

func queued(uintptr) uint64 { return 0 }
