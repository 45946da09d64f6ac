//go:build !idleother

package kernel

import (
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// queue is a Unix stream socket that notifies a Waiter when a write starts to wait. For such a
// socket the kernel reports how many bytes are queued, but not since when. To find out whether
// the peer is reading, the owner has to ask when the wait begins and again later.
type queue struct {
	*net.UnixConn
	waiter Waiter
}

// Queue wraps c so that w is notified each time a write starts to wait for the
// peer. The result otherwise behaves as c does. At most one goroutine may write
// at a time. If notifies is false, made is c itself and w is never called. That
// is so if c is not a stream socket.
func Queue(c *net.UnixConn, w Waiter) (made net.Conn, notifies bool) {
	if addr := c.LocalAddr(); addr == nil || addr.Network() != "unix" {
		return c, false
	}
	return &queue{c, w}, true
}

func (q *queue) unwrap() net.Conn { return q.UnixConn }

// Write writes b as package net does. As in a stream, the write in progress is on
// the stack.
func (q *queue) Write(b []byte) (n int, err error) {
	raw, err := q.UnixConn.SyscallConn()
	if err != nil || len(b) == 0 {
		return q.UnixConn.Write(b)
	}
	var cause error
	err = raw.Write(func(fd uintptr) (done bool) {
		for begun := n; n < len(b); {
			took, err := unix.Write(int(fd), b[n:])
			switch {
			case took > 0:
				n += took
			case err == unix.EAGAIN:
				q.waiter.WriteWaits(n - begun)
				return false
			case err == unix.EINTR:
			case err != nil:
				cause = err
				return true
			default:
				cause = io.ErrUnexpectedEOF
				return true
			}
		}
		return true
	})
	if err != nil || cause != nil {
		return n, opError(q, "write", err, cause)
	}
	return n, nil
}

// opError returns the error of an operation on c. That is err if package net's locks or
// deadlines made it fail, and otherwise one with the given cause. It is as package net
// returns it, except that its network is "tcp" for "tcp4" and "tcp6".
func opError(c net.Conn, op string, err, cause error) error {
	if err == nil {
		if _, ok := cause.(syscall.Errno); ok {
			cause = os.NewSyscallError(op, cause)
		}
		return &net.OpError{Op: op, Net: c.LocalAddr().Network(), Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: cause}
	}
	if err, ok := err.(*net.OpError); ok {
		err.Op = op
	}
	return err
}
