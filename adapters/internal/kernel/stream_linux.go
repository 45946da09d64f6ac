//go:build linux && !386 && !s390x && !msan && !asan

package kernel

import (
	"io"
	"net"
	"os"
	"syscall"
	"unsafe"
)

// stream is a TCP connection that is read by recv and written by send. Package
// net uses read and write instead, which reach a socket through the kernel's file
// layer and cost more. Everything else is as in package net: its locks are held,
// its deadlines and Close take effect, and its errors are returned. One thing
// differs: a write to a peer that has gone returns an error but raises no
// SIGPIPE.
//
// Ground rules:
//
//   - At most one goroutine reads and one writes at a time, not counting calls
//     with an empty buffer. All other methods may be called meanwhile.
//   - The operation in progress is kept in the stream, because a closure for each
//     operation would be garbage.
//   - The scheduler is told about each system call, although none of them waits
//     for the peer. The kernel may stop a thread inside one for a while, and only
//     a thread that is known to be in a system call gives up its processor. See
//     DESIGN, "idlenet".
//   - The race detector is told about both calls what package net tells it
//     (race_on.go), so it checks the code that ships. The memory and address
//     sanitizers cannot be told, because package syscall uses an internal package
//     for that. So this file is not built with them.
//   - This file is not built on 386, where the two calls have no numbers of their
//     own, nor on s390x, where not every kernel has them.
type stream struct {
	*net.TCPConn
	raw syscall.RawConn
	in  transfer // the first of two cache lines ends here

	out    transfer
	waiter Waiter
	_      [8]byte
}

// A transfer is a Read or a Write in progress.
type transfer struct {
	try   func(fd uintptr) (done bool)
	b     []byte // Read: the buffer, then what was read. Write: the bytes not written yet.
	errno syscall.Errno
}

// Stream wraps nc so that Read and Write cost less, if nc is a TCP connection. w
// is notified each time a write starts to wait for the peer. If notifies is
// false, made is nc itself and w is never called.
func Stream(nc net.Conn, w Waiter) (made net.Conn, notifies bool) {
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return nc, false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nc, false
	}
	s := &stream{TCPConn: tcp, raw: raw, waiter: w}
	s.in.try, s.out.try = recv(&s.in), s.send
	return s, true
}

func (s *stream) unwrap() net.Conn { return s.TCPConn }

// Read reads as package net does.
func (s *stream) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return s.TCPConn.Read(b)
	}
	s.in.b = b
	err := s.raw.Read(s.in.try)
	n, errno := len(s.in.b), s.in.errno
	s.in.end()
	switch {
	case err != nil || errno != 0:
		return 0, s.explain("read", err, os.NewSyscallError("read", errno))
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// Write writes b as package net does.
func (s *stream) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return s.TCPConn.Write(b)
	}
	s.out.b = b
	err := s.raw.Write(s.out.try)
	n, errno := len(b)-len(s.out.b), s.out.errno
	s.out.end()
	switch {
	case err != nil || errno != 0:
		return n, s.explain("write", err, os.NewSyscallError("write", errno))
	case n < len(b):
		return n, s.explain("write", nil, io.ErrUnexpectedEOF)
	}
	return n, nil
}

// end clears the transfer, so that the caller's buffer is not retained.
func (t *transfer) end() { t.b, t.errno = nil, 0 }

// recv returns the function that reads what is available into t.b. That function
// returns true if it has read something, reached the end of input or failed, and
// false if there is nothing to read yet.
func recv(t *transfer) (try func(fd uintptr) (done bool)) {
	return func(fd uintptr) bool {
		for {
			n, _, errno := syscall.Syscall6(syscall.SYS_RECVFROM, fd,
				uintptr(unsafe.Pointer(unsafe.SliceData(t.b))), uintptr(len(t.b)), 0, 0, 0)
			switch errno {
			case 0:
				t.b = t.b[:n]
				raceReceived(fd, t.b)
				return true
			case syscall.EAGAIN:
				return false
			case syscall.EINTR:
			default:
				t.errno = errno
				return true
			}
		}
	}
}

// send writes as much of s.out.b as there is room for. It returns false if the
// rest has to wait, and true otherwise: all is written, an error occurred, or the
// kernel took nothing without giving a reason.
func (s *stream) send(fd uintptr) (done bool) {
	t, moved := &s.out, false
	for len(t.b) > 0 {
		raceSending()
		n, _, errno := syscall.Syscall6(syscall.SYS_SENDTO, fd,
			uintptr(unsafe.Pointer(unsafe.SliceData(t.b))), uintptr(len(t.b)), syscall.MSG_NOSIGNAL, 0, 0)
		switch errno {
		case 0:
			raceSent(t.b, n)
			t.b, moved = t.b[n:], true
			if n == 0 {
				return true
			}
		case syscall.EAGAIN:
			s.waiter.WriteWaits(0, moved)
			return false
		case syscall.EINTR:
		default:
			t.errno = errno
			return true
		}
	}
	return true
}

// explain returns the error that package net would return. That is err if package
// net's locks or deadlines made the operation fail, and otherwise one that wraps
// cause.
func (s *stream) explain(op string, err, cause error) error {
	if err == nil { // only package net knows the network's name; ReadFrom wraps the error of its reader
		_, err = s.TCPConn.ReadFrom(failing{cause})
	}
	if err, ok := err.(*net.OpError); ok {
		err.Op = op
	}
	return err
}

// failing is a reader that fails at once.
type failing struct{ error }

func (f failing) Read([]byte) (int, error)         { return 0, f.error }
func (f failing) WriteTo(io.Writer) (int64, error) { return 0, f.error } // lets io.Copy do without a buffer
