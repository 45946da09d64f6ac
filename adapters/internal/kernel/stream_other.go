//go:build !linux || 386 || s390x || msan || asan || idleother

package kernel

import "net"

// Stream returns nc and false: here connections are read and written by package
// net.
func Stream(nc net.Conn, _ Waiter) (made net.Conn, notifies bool) { return nc, false }
