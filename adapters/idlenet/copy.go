package idlenet

import (
	"io"
	"math"
	"net"
	"os"
	"syscall"
)

// A mover copies from a reader, most likely in the kernel, as the method
// ReadFrom of *net.TCPConn does.
type mover func(io.Reader) (int64, error)

// ReadFrom copies from r until EOF. From a regular file, or a TCP or Unix
// connection wrapped or not, it uses sendfile or splice as the wrapped
// connection would.
func (c *Conn) ReadFrom(r io.Reader) (int64, error) {
	inner, ok := c.inner.(*net.TCPConn)
	limited, isLimited := r.(*io.LimitedReader)
	src, limit := r, int64(math.MaxInt64)
	if isLimited {
		src, limit = limited.R, limited.N
	}
	if !ok || !kernelReads(src) {
		return io.Copy(struct{ io.Writer }{c}, r)
	}
	move := c.writes(inner.ReadFrom)
	if from, wrapped := src.(*Conn); wrapped {
		from.reading.Lock()
		defer from.reading.Unlock()
		src, move = from.inner, from.reads(move)
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	c.openLedger()
	n, err := inSteps(src, limit, move)
	if isLimited {
		limited.N -= n
	}
	return n, err
}

// WriteTo copies to w until EOF. To a TCP connection, wrapped or not, it uses
// splice as the wrapped connection would.
func (c *Conn) WriteTo(w io.Writer) (int64, error) {
	if dst, wrapped := w.(*Conn); wrapped {
		return dst.ReadFrom(c)
	}
	dst, ok := w.(*net.TCPConn)
	if !ok || !kernelReads(c) {
		return io.Copy(w, struct{ io.Reader }{c})
	}
	c.reading.Lock()
	defer c.reading.Unlock()
	return inSteps(c.inner, math.MaxInt64, c.reads(dst.ReadFrom))
}

// inSteps moves up to limit bytes of src, a chunk at a time, until EOF.
func inSteps(src io.Reader, limit int64, move mover) (total int64, err error) {
	for total < limit {
		size := min(chunk, limit-total)
		n, err := move(&io.LimitedReader{R: src, N: size})
		total += n
		if err != nil || n < size {
			return total, err
		}
	}
	return total, nil
}

// writes returns move with reports on c's writing, which must be locked.
func (c *Conn) writes(move mover) mover {
	return func(r io.Reader) (int64, error) {
		c.track.AwaitWrite()
		n, err := move(r)
		if n > 0 {
			c.sent(int(n))
		}
		return n, c.explain("readfrom", err)
	}
}

// reads returns move with reports on c's reading, which must be locked.
func (c *Conn) reads(move mover) mover {
	return func(r io.Reader) (int64, error) {
		c.track.AwaitRead()
		n, err := move(r)
		end := err
		if err == nil && n == 0 {
			end = io.EOF
		}
		c.received(int(n), end)
		return n, c.explain("writeto", err)
	}
}

// kernelReads reports whether the kernel can copy from r to a TCP connection,
// and does not wait long for r if r is no connection.
func kernelReads(r io.Reader) bool {
	switch src := r.(type) {
	case *net.TCPConn, *net.UnixConn:
		return true
	case *Conn:
		return kernelReads(src.inner)
	case interface {
		syscall.Conn
		Stat() (os.FileInfo, error)
	}: // an *os.File, or the like in which io.Copy hides one
		info, err := src.Stat()
		return err == nil && info.Mode().IsRegular()
	}
	return false
}
