package kernel

import (
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// queue is a Unix socket that tells when a write begins to wait. Of such a socket
// the kernel tells how much is queued, but not since when; so whoever wants to know
// whether the peer takes anything has to look at the queue when the wait begins,
// and again later.
type queue struct {
	*net.UnixConn
	raw    syscall.RawConn
	waiter Waiter

	// The write that is going on. As in a stream, it is told to try without a closure.
	try   func(fd uintptr) (done bool)
	b     []byte // what is left of it
	moved bool   // some of it has gone since it last began to wait
	err   error
}

// Queue returns what does all that c does. If that is a stream,
// w is told each time that a write has to wait for the peer. One goroutine at a time
// may write.
func Queue(c *net.UnixConn, w Waiter) (made net.Conn, tells bool) {
	raw, err := c.SyscallConn()
	if err != nil || c.LocalAddr().Network() != "unix" {
		return c, false
	}
	q := &queue{UnixConn: c, raw: raw, waiter: w}
	q.try = q.write
	return q, true
}

func (q *queue) plain() net.Conn { return q.UnixConn }

// Write writes as package net does.
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
	q.b, q.err = nil, nil // lest they are kept
	if err, ok := err.(*net.OpError); ok {
		err.Op = "write"
		return n, err
	}
	if err != nil {
		err = &net.OpError{Op: "write", Net: "unix", Source: q.LocalAddr(), Addr: q.RemoteAddr(), Err: err}
	}
	return n, err
}

// write writes what there is room for, and reports whether the write is over.
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
