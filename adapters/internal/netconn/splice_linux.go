package netconn

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// A socket is a connection that the kernel can splice from.
//
// A splice of package net waits for its source and its destination, and reports which only when
// it's done. So spliceTo waits for the source itself, and then splices only what has arrived. So
// each side's wait is reported to its own connection, and other goroutines can write to the
// destination while the source is silent.
type socket struct {
	io.Reader
	raw  syscall.RawConn
	from *Conn // nil if the source is not a Conn
}

// socketOf returns the socket in r, and whether there is one. c is the Conn that r is, or nil.
func socketOf(r io.Reader, c *Conn) (socket, bool) {
	if c != nil {
		r = c.bare()
	}
	// This matches *net.TCPConn, *net.UnixConn, and the type in which io.Copy
	// hides a *net.TCPConn.
	conn, ok := r.(interface {
		syscall.Conn
		CloseRead() error
	})
	if !ok || !definedIn("net", r) {
		return socket{}, false
	}
	raw, err := conn.SyscallConn()
	return socket{r, raw, c}, err == nil
}

// spliceTo copies up to limit bytes, or until EOF.
func (s socket) spliceTo(limit int64, into copyFunc) (total int64, err error) {
	for total < limit {
		ready, err := s.await()
		if err != nil || ready == 0 {
			return total, err
		}
		src := s.Reader
		if ready == 1 { // maybe a byte after urgent data, where splice would report the end of the stream
			src = struct{ io.Reader }{src}
		}
		n, err := into(&io.LimitedReader{R: src, N: min(int64(ready), largeStep, limit-total)})
		total += n
		s.received(int(n))
		if s.from != nil { // the source may have timed out since await; into has explained errors of the destination
			err = s.from.explain("writeto", err)
		}
		if err != nil || n == 0 {
			return total, err
		}
	}
	return total, nil
}

// await waits for input. It returns the number of bytes available, or 0 at EOF.
func (s socket) await() (ready int, err error) {
	if s.from == nil {
		return s.peek()
	}
	s.from.reading.Lock()
	defer s.from.reading.Unlock()
	s.from.beginRead()
	ready, err = s.peek()
	result := err
	if err == nil && ready == 0 {
		result = io.EOF
	}
	if !s.from.received(0, 0, result) { // otherwise the read's wait is over; what follows is the destination's
		ready, err = s.from.discard(result)
	}
	if err = s.from.explain("writeto", err); err == io.EOF {
		err = nil
	}
	return ready, err
}

// received reports that n bytes were taken from the socket.
func (s socket) received(n int) {
	if s.from != nil && n > 0 {
		s.from.reading.Lock()
		defer s.from.reading.Unlock()
		s.from.received(n, n, nil)
	}
}

// peek is await without the reports to the tracker.
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
			ready = max(ready, 1) // it is 0 if urgent data comes first
		}
		return !errors.Is(failed, unix.EAGAIN)
	})
	if err == nil && failed != nil {
		err = &net.OpError{Op: "splice", Net: "tcp", Err: os.NewSyscallError("recvfrom", failed)}
	}
	return max(ready, 0), err
}
