package attack

import (
	"syscall"

	"golang.org/x/sys/unix"
)

func setSendBuffer(c syscall.RawConn, size int) error {
	return control(c, func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, size) })
}

func setReceiveBuffer(c syscall.RawConn, size int) error {
	return control(c, func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, size) })
}

func control(c syscall.RawConn, do func(fd int) error) error {
	var failed error
	if err := c.Control(func(fd uintptr) { failed = do(int(fd)) }); err != nil {
		return err
	}
	return failed
}

// limitDescriptors leaves the process descriptors for so many connections, and
// no more.
func limitDescriptors(connections int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	for limit.Cur = 0; connections > 0; limit.Cur++ {
		if _, err := unix.FcntlInt(uintptr(limit.Cur), unix.F_GETFD, 0); err != nil { // it is free
			connections--
		}
	}
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit) // fails if that is more than the process may have
}
