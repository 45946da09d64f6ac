package netconn

import (
	"io"
	"math"
	"net"
	"os"
	"reflect"
	"syscall"
)

// A copyFunc copies from a reader within the kernel, as ReadFrom of *net.TCPConn
// does.
type copyFunc func(io.Reader) (int64, error)

// ReadFrom copies from r until EOF. It uses sendfile for a regular file, and splice for a TCP or
// Unix connection, wrapped or not, where *net.TCPConn would.
func (c *Conn) ReadFrom(r io.Reader) (n int64, err error) {
	limited, isLimited := r.(*io.LimitedReader)
	src, limit := r, int64(math.MaxInt64)
	if isLimited {
		src, limit = limited.R, limited.N
	}
	inner, isTCP := c.bare().(*net.TCPConn)
	socket, isSocket := socketOf(src, c.setup.connIn(src))
	switch {
	case isTCP && isRegular(src):
		n, err = c.sendFile(src, limit, inner.ReadFrom)
	case isTCP && isSocket:
		n, err = socket.spliceTo(limit, c.asWrite(inner.ReadFrom))
	default:
		return io.Copy(struct{ io.Writer }{c}, r)
	}
	if isLimited {
		limited.N -= n
	}
	return n, err
}

// WriteTo copies to w until EOF. If w is a TCP connection, wrapped or not, it
// uses splice where *net.TCPConn would.
func (c *Conn) WriteTo(w io.Writer) (int64, error) {
	if dst := c.setup.connIn(w); dst != nil {
		return dst.ReadFrom(c)
	}
	dst, isTCP := w.(*net.TCPConn)
	socket, isSocket := socketOf(c, c)
	if !isTCP || !isSocket {
		return io.Copy(w, struct{ io.Reader }{c})
	}
	return socket.spliceTo(math.MaxInt64, dst.ReadFrom)
}

// sendFile copies up to limit bytes of a file, in steps. As in package net, no other write
// happens in between.
func (c *Conn) sendFile(file io.Reader, limit int64, move copyFunc) (total int64, err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	for total < limit {
		size := min(largeStep, limit-total)
		n, err := c.writeFrom(&io.LimitedReader{R: file, N: size}, move)
		total += n
		if err != nil || n < size {
			return total, err
		}
	}
	return total, nil
}

// asWrite returns a copyFunc that reports each call of move as a write of c.
func (c *Conn) asWrite(move copyFunc) copyFunc {
	return func(r io.Reader) (int64, error) {
		c.writing.Lock()
		defer c.writing.Unlock()
		return c.writeFrom(r, move)
	}
}

// writeFrom calls move and reports it as a write. c.writing must be held.
func (c *Conn) writeFrom(r io.Reader, move copyFunc) (int64, error) {
	c.beginWrite(0)
	n, err := move(r)
	c.sent(int(n), err)
	return n, c.explain("readfrom", err)
}

// isRegular reports whether r is a regular file: an *os.File, or the type in
// which io.Copy hides one.
func isRegular(r io.Reader) bool {
	file, ok := r.(interface {
		syscall.Conn
		Stat() (os.FileInfo, error)
	})
	if !ok || !definedIn("os", r) {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode().IsRegular()
}

// definedIn reports whether r's type is defined in the given package. A type of
// another package may embed such a type and read in its own way.
func definedIn(pkg string, r io.Reader) bool {
	t := reflect.TypeOf(r)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.PkgPath() == pkg
}
