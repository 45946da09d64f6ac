package kernel

import (
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// queue is a Unix stream socket that notifies a Waiter when a write starts to
// wait. For such a socket the kernel tells how many bytes are queued, but not
// since when. To find out whether the peer is reading, the number has to be
// looked at when the wait begins and again later.
type queue struct {
	*net.UnixConn
	raw    syscall.RawConn
	waiter Waiter

	// The write in progress. It is kept here, not in a closure, so that a write
	// allocates nothing.
	try   func(fd uintptr) (done bool)
	b     []byte // the bytes that are not written yet
	moved bool   // bytes have been written since the write began or last waited
	err   error
}

// Queue wraps c so that w is notified each time a write starts to wait for the
// peer. The result otherwise behaves as c does. At most one goroutine may write
// at a time. If notifies is false, made is c itself and w is never called. That
// is so if c is not a stream socket.
func Queue(c *net.UnixConn, w Waiter) (made net.Conn, notifies bool) {
	raw, err := c.SyscallConn()
	if err != nil || c.LocalAddr().Network() != "unix" {
		return c, false
	}
	q := &queue{UnixConn: c, raw: raw, waiter: w}
	q.try = q.write
	return q, true
}

func (q *queue) unwrap() net.Conn { return q.UnixConn }

// Write writes b as package net does.
func (q *queue) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return q.UnixConn.Write(b)
	}
	q.b, q.moved, q.err = b, false, nil
	err := q.raw.Write(q.try)
	n := len(b) - len(q.b)
	if err == nil {
		err = q.err
	}
	q.b, q.err = nil, nil // do not retain the caller's buffer
	if err, ok := err.(*net.OpError); ok {
		err.Op = "write"
		return n, err
	}
	if err != nil {
		err = &net.OpError{Op: "write", Net: "unix", Source: q.LocalAddr(), Addr: q.RemoteAddr(), Err: err}
	}
	return n, err
}

// write writes as much of q.b as there is room for. It reports whether the write
// is over: all is written, or it has failed.
func (q *queue) write(fd uintptr) (done bool) {
	for len(q.b) > 0 {
		n, err := unix.Write(int(fd), q.b)
		switch {
		case n > 0:
			q.b, q.moved = q.b[n:], true
		case err == unix.EAGAIN:
			if queued, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ); err == nil {
				q.waiter.WriteWaits(uint64(queued), q.moved)
			}
			q.moved = false
			return false
		case err == unix.EINTR:
		case err != nil:
			q.err = os.NewSyscallError("write", err)
			return true
		default:
			q.err = io.ErrUnexpectedEOF
			return true
		}
	}
	return true
}
