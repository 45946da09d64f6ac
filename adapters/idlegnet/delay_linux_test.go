//go:build proof

package idlegnet

import (
	"net"
	"syscall"
)

// delayAcknowledgements has the kernel keep back the acknowledgements of what nc
// receives, as it does most of the time anyway.
func delayAcknowledgements(nc net.Conn) {
	if tcp, ok := nc.(*net.TCPConn); ok {
		if raw, err := tcp.SyscallConn(); err == nil {
			raw.Control(func(fd uintptr) { syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_QUICKACK, 0) })
		}
	}
}
