package idlenet

import (
	"io"
	"math"
	"net"
	"os"
	"reflect"
	"syscall"
)

// A mover copies from a reader in the kernel, as ReadFrom of *net.TCPConn does.
type mover func(io.Reader) (int64, error)

// ReadFrom copies from r until EOF. From a regular file it uses sendfile, and
// from a TCP or Unix connection, wrapped or not, splice, as the wrapped
// connection would.
func (c *Conn) ReadFrom(r io.Reader) (n int64, err error) {
	limited, isLimited := r.(*io.LimitedReader)
	src, limit := r, int64(math.MaxInt64)
	if isLimited {
		src, limit = limited.R, limited.N
	}
	inner, isTCP := c.NetConn().(*net.TCPConn)
	socket, isSocket := socketOf(src)
	switch {
	case isTCP && isRegular(src):
		n, err = c.sendFile(src, limit, inner.ReadFrom)
	case isTCP && isSocket:
		n, err = socket.spliceTo(limit, c.writes(inner.ReadFrom))
	default:
		return io.Copy(struct{ io.Writer }{c}, r)
	}
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
	dst, isTCP := w.(*net.TCPConn)
	socket, isSocket := socketOf(c)
	if !isTCP || !isSocket {
		return io.Copy(w, struct{ io.Reader }{c})
	}
	return socket.spliceTo(math.MaxInt64, dst.ReadFrom)
}

// sendFile copies up to limit bytes of a file, in steps. As in package net no
// other write gets between them.
func (c *Conn) sendFile(file io.Reader, limit int64, move mover) (total int64, err error) {
	c.writing.Lock()
	defer c.doneWriting()
	for total < limit {
		size := min(chunk, limit-total)
		n, err := c.write(&io.LimitedReader{R: file, N: size}, move)
		total += n
		if err != nil || n < size {
			return total, err
		}
	}
	return total, nil
}

// writes returns move as a write of c's.
func (c *Conn) writes(move mover) mover {
	return func(r io.Reader) (int64, error) {
		c.writing.Lock()
		defer c.doneWriting()
		return c.write(r, move)
	}
}

// write reports on a move. c.writing is held.
func (c *Conn) write(r io.Reader, move mover) (int64, error) {
	c.beginWrite(0)
	n, err := move(r)
	c.sent(int(n), err)
	return n, c.explain("readfrom", err)
}

// isRegular reports whether r is a regular file: an *os.File, or the like in
// which io.Copy hides one.
func isRegular(r io.Reader) bool {
	file, ok := r.(interface {
		syscall.Conn
		Stat() (os.FileInfo, error)
	})
	if !ok || !isOf("os", r) {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode().IsRegular()
}

// isOf reports whether r is of a type of the given package. A type of somebody
// else's that embeds one may read otherwise than the kernel would.
func isOf(pkg string, r io.Reader) bool {
	t := reflect.TypeOf(r)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.PkgPath() == pkg
}
