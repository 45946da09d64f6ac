//go:build proof && !idleother

package idlenet

import (
	"testing"

	"golang.org/x/sys/unix"
)

// whyUntold returns why the kernel does not tell what becomes of a connection's bytes, or
// "" if it does.
func whyUntold(t testing.TB) string {
	server, _ := tcpPair(t)
	raw, err := server.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	whole := false
	raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		whole = err == nil && info.Rto > 0
	})
	if !whole {
		return "only part of TCP_INFO is passed on, as by qemu-user"
	}
	return ""
}
