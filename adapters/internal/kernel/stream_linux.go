//go:build linux && !386 && !s390x && !msan && !asan

package kernel

import (
	"io"
	"net"
	"os"
	"syscall"
	"unsafe"
)

// stream is a TCP connection that is read and written by recv and send. They are
// made for sockets; read and write, which package net uses, reach those by way of
// what the kernel does for files. All else is as in package net: its locks are
// held, its deadlines and Close are heeded, and its errors are returned; but a
// write to a peer that has gone raises no SIGPIPE beside its error.
//
// Ground rules:
//
//   - One goroutine at a time reads, and one writes, but for those that have
//     nothing to read or write. Close and all else may be called meanwhile.
//   - What try needs is in the stream, as to tell it by a closure would be garbage
//     at each operation.
//   - The scheduler is told of each system call, though none of them waits for the
//     peer. The kernel may well stop a thread in one for a while, and a processor
//     is given to another thread only if it is known to be in a system call.
//   - The race detector is told of both calls what package net tells it (race_on.go),
//     so that it sees the code that ships. The memory and the address sanitizer
//     cannot be told, as package syscall does it by an internal package, so this is
//     not built with them.
//   - It is not built where the two calls have no numbers of their own (386), or not
//     in all kernels (s390x).
type stream struct {
	*net.TCPConn
	raw syscall.RawConn
	in  transfer // up to here it is one cache line, of two

	out    transfer
	waiter Waiter
	_      [8]byte
}

// A transfer is the read, or write, that is going on.
type transfer struct {
	try   func(fd uintptr) (done bool)
	b     []byte // where to read to, then what was read; or what is left to be written
	errno syscall.Errno
}

// Stream returns what does all that nc does: if that is a TCP connection, at a
// lower price, and telling w when a write has to wait for the peer.
func Stream(nc net.Conn, w Waiter) (made net.Conn, tells bool) {
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

func (s *stream) plain() net.Conn { return s.TCPConn }

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

// Write writes as package net does.
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

// end forgets the transfer, lest its buffer is kept.
func (t *transfer) end() { t.b, t.errno = nil, 0 }

// recv returns how to read what there is, which reports whether that is anything,
// or an error.
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

// send writes what there is room for, and reports whether that is all, or there is an
// error, or the kernel takes nothing without saying why.
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

// explain returns what package net would: err, which comes of its locks and its
// deadlines, or else why the operation itself has failed.
func (s *stream) explain(op string, err, why error) error {
	if err == nil { // package net alone knows what network this is, and tells with the error of a reader
		_, err = s.TCPConn.ReadFrom(failing{why})
	}
	if err, ok := err.(*net.OpError); ok {
		err.Op = op
	}
	return err
}

// failing is a reader that fails at once.
type failing struct{ error }

func (f failing) Read([]byte) (int, error)         { return 0, f.error }
func (f failing) WriteTo(io.Writer) (int64, error) { return 0, f.error } // for which io.Copy needs no buffer
