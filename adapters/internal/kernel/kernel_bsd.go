//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package kernel

import "golang.org/x/sys/unix"

// SeesOutput is whether Inspect reports on output.
const SeesOutput = false

// Inspect asks for unread input, by a look at it.
func Inspect(fd uintptr) (r Report) {
	var b [1]byte
	n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	r.Unread = err == nil && n > 0
	return r
}
