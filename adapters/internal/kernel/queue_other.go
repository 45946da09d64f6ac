//go:build !linux || idleother

package kernel

import "net"

// Queue returns c and false: on this system no write is reported.
func Queue(c *net.UnixConn, _ Waiter) (made net.Conn, notifies bool) { return c, false }
