package main

import (
	"net"

	"golang.org/x/sys/unix"
)

// isDown returns how the server has ended the connection, although nobody reads what came
// before, or "" if it has not.
func isDown(c *net.TCPConn) (by string) {
	raw, err := c.SyscallConn()
	if err != nil {
		return "error"
	}
	err = raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		if _, err := unix.Poll(fds, 0); err != nil {
			return
		}
		switch got := fds[0].Revents; {
		case got&(unix.POLLERR|unix.POLLHUP) != 0:
			by = "RST"
		case got&unix.POLLRDHUP != 0:
			by = "FIN"
		}
	})
	if err != nil {
		return "error"
	}
	return by
}
