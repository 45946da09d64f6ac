package idlenet

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// A socket is a connection from which the kernel can splice.
//
// One splice of package net's waits for its source and for its destination,
// and tells of neither before it is done. So the wait for the source is ours,
// and then only what is there already is spliced: each side's wait is seen for
// what it is, and the destination is free for others while the source is
// silent.
type socket struct {
	io.Reader
	raw  syscall.RawConn
	from *Conn // nil if it is not wrapped
}

// socketOf returns r as a socket, false if it is none.
func socketOf(r io.Reader) (socket, bool) {
	c, wrapped := r.(*Conn)
	if wrapped {
		r = c.NetConn()
	}
	// *net.TCPConn and *net.UnixConn, and what io.Copy hides the former in.
	conn, ok := r.(interface {
		syscall.Conn
		CloseRead() error
	})
	if !ok || !isOf("net", r) {
		return socket{}, false
	}
	raw, err := conn.SyscallConn()
	return socket{r, raw, c}, err == nil
}

// spliceTo copies up to limit bytes, until EOF.
func (s socket) spliceTo(limit int64, into mover) (total int64, err error) {
	for total < limit {
		ready, err := s.await()
		if err != nil || ready == 0 {
			return total, err
		}
		n, err := into(&io.LimitedReader{R: s.Reader, N: min(int64(ready), chunk, limit-total)})
		total += n
		s.received(int(n))
		if s.from != nil { // it may have timed out since await; what failed in the other is explained there
			err = s.from.explain("writeto", err)
		}
		if err != nil || n == 0 {
			return total, err
		}
	}
	return total, nil
}

// await waits for input and returns how many bytes there are, 0 at EOF.
func (s socket) await() (ready int, err error) {
	if s.from == nil {
		return s.peek()
	}
	s.from.reading.Lock()
	defer s.from.doneReading()
	s.from.beginRead()
	ready, err = s.peek()
	if err == nil && ready == 0 {
		s.from.received(0, io.EOF)
	} else {
		s.from.received(0, err) // and what comes now is the destination's wait
	}
	return ready, s.from.explain("writeto", err)
}

// received reports that n bytes were taken from the socket.
func (s socket) received(n int) {
	if s.from != nil && n > 0 {
		s.from.reading.Lock()
		defer s.from.doneReading()
		s.from.received(n, nil)
	}
}

// peek is await without the reports.
func (s socket) peek() (ready int, err error) {
	var b [1]byte
	var failed error
	err = s.raw.Read(func(fd uintptr) bool {
		failed = unix.EINTR
		for errors.Is(failed, unix.EINTR) {
			ready, _, failed = unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		}
		if ready > 0 {
			ready, failed = unix.IoctlGetInt(int(fd), unix.TIOCINQ)
		}
		return !errors.Is(failed, unix.EAGAIN)
	})
	if err == nil && failed != nil {
		err = &net.OpError{Op: "splice", Net: "tcp", Err: os.NewSyscallError("recvfrom", failed)}
	}
	return max(ready, 0), err
}
