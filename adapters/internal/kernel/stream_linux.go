//go:build linux && !386 && !s390x && !msan && !asan && !idleother

package kernel

import (
	"io"
	"net"
	"syscall"
	"unsafe"
)

// stream is a TCP connection that is read by recv and written by send. Package
// net uses read and write instead, which reach a socket through the kernel's file
// layer and cost more. Everything else is as in package net: its locks are held,
// its deadlines and Close take effect, and its errors are returned. Two things
// differ: a write to a peer that has gone returns an error but raises no
// SIGPIPE, and errors name the network "tcp" where package net says "tcp4".
//
// Ground rules:
//
//   - The operation in progress is on the stack of its goroutine. The compiler puts
//     the RawConn, the function that it calls and the function's variables there,
//     because it can see that package net does not retain them. For that, the
//     RawConn must be asked for in the method that uses it, from a connection
//     whose type is known: its methods then are calls of functions, not of an
//     interface. TestAllocatesNothing fails if a compiler does not see it.
//   - The scheduler is told about each system call, although none of them waits
//     for the peer. The kernel may stop a thread inside one for a while, and only
//     a thread that is known to be in a system call gives up its processor. See
//     docs/decisions/recv-and-send.md.
//   - The race detector is told about both calls what package net tells it
//     (race_on.go), so it checks the code that ships. The memory and address
//     sanitizers cannot be told, because package syscall uses an internal package
//     for that. So this file is not built with them.
//   - This file is not built on 386, where the two calls have no numbers of their
//     own, nor on s390x, where not every kernel has them.
type stream struct {
	*net.TCPConn
	waiter Waiter
}

// Stream wraps nc so that Read and Write cost less, if nc is a TCP connection. w
// is notified each time a write starts to wait for the peer. If notifies is
// false, made is nc itself and w is never called.
func Stream(nc net.Conn, w Waiter) (made net.Conn, notifies bool) {
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return nc, false
	}
	return &stream{tcp, w}, true
}

func (s *stream) unwrap() net.Conn { return s.TCPConn }

// Read reads as package net does.
func (s *stream) Read(b []byte) (n int, err error) {
	raw, err := s.TCPConn.SyscallConn()
	if err != nil || len(b) == 0 {
		return s.TCPConn.Read(b)
	}
	var errno syscall.Errno
	err = raw.Read(func(fd uintptr) (done bool) {
		for {
			var got uintptr
			got, _, errno = syscall.Syscall6(syscall.SYS_RECVFROM, fd,
				uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), 0, 0, 0)
			switch errno {
			case 0:
				n = int(got)
				raceReceived(fd, b[:n])
				return true
			case syscall.EAGAIN:
				return false // nothing has arrived yet
			case syscall.EINTR:
			default:
				return true
			}
		}
	})
	switch {
	case err != nil || errno != 0:
		return 0, opError(s, "read", err, errno)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// Write writes b as package net does.
func (s *stream) Write(b []byte) (n int, err error) {
	raw, err := s.TCPConn.SyscallConn()
	if err != nil || len(b) == 0 {
		return s.TCPConn.Write(b)
	}
	var errno syscall.Errno
	err = raw.Write(func(fd uintptr) (done bool) {
		for begun := n; n < len(b); {
			rest := b[n:]
			raceSending()
			var took uintptr
			took, _, errno = syscall.Syscall6(syscall.SYS_SENDTO, fd,
				uintptr(unsafe.Pointer(unsafe.SliceData(rest))), uintptr(len(rest)), syscall.MSG_NOSIGNAL, 0, 0)
			switch errno {
			case 0:
				raceSent(rest, took)
				n += int(took)
				if took == 0 {
					return true // without a reason
				}
			case syscall.EAGAIN:
				s.waiter.WriteWaits(n - begun)
				return false
			case syscall.EINTR:
			default:
				return true
			}
		}
		return true
	})
	switch {
	case err != nil || errno != 0:
		return n, opError(s, "write", err, errno)
	case n < len(b):
		return n, opError(s, "write", nil, io.ErrUnexpectedEOF)
	}
	return n, nil
}
