//go:build !linux

package netconn

import "io"

// socket is a connection that the kernel can splice from. On this system there
// are none.
type socket struct{}

func socketOf(io.Reader, *Conn) (socket, bool) { return socket{}, false }

func (socket) spliceTo(int64, copyFunc) (int64, error) { return 0, nil }
