//go:build !linux

package main

import (
	"net"
	"syscall"
)

// setReceiveBuffer leaves the buffer as it is. A client that does not read has a larger one
// then, and is noticed later.
func setReceiveBuffer(syscall.RawConn, int) error { return nil }

// isDown returns "": a client that does not read finds out only when it reads.
func isDown(*net.TCPConn) string { return "" }
