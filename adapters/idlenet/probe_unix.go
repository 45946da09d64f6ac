//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package idlenet

import "golang.org/x/sys/unix"

// inspect asks for unread input, by a look at it.
func inspect(fd uintptr) (r report, ok bool) {
	var b [1]byte
	n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	r.unread = err == nil && n > 0
	return r, true
}
