package main

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// flow is what the kernel knows of a connection.
type flow struct {
	established bool
	received    int // bytes that the peer knows to have arrived
}

func look(c syscall.Conn) (flow, error) {
	var f flow
	raw, err := c.SyscallConn()
	if err != nil {
		return f, err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		var info *unix.TCPInfo
		if info, failed = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); failed == nil {
			f = flow{established: info.State == unix.BPF_TCP_ESTABLISHED, received: int(info.Bytes_received)}
		}
	})
	if err == nil {
		err = failed
	}
	return f, err
}

func setSendBuffer(c syscall.RawConn, size int) error { return setOption(c, unix.SO_SNDBUF, size) }

func setReceiveBuffer(c syscall.RawConn, size int) error { return setOption(c, unix.SO_RCVBUF, size) }

func setOption(c syscall.RawConn, option, value int) error {
	var failed error
	if err := c.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, option, value)
	}); err != nil {
		return err
	}
	return failed
}
