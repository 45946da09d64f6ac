//go:build !linux || 386 || s390x || msan || asan

package kernel

import "net"

// Stream returns what does all that nc does: here, itself.
func Stream(nc net.Conn) net.Conn { return nc }
