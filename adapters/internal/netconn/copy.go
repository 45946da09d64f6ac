package netconn

import (
	"io"
	"math"
	"net"
	"os"
	"reflect"
	"syscall"

	"github.com/idlewheel/idlewheel/adapters/internal/kernel"
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
	socket := c.setup.socketOf(src)
	switch {
	case isTCP && isRegular(src):
		n, err = c.sendFile(src, limit, inner.ReadFrom)
	case isTCP && socket != nil:
		n, err = c.setup.splice(c, src, socket, limit, c.asWrite(inner.ReadFrom))
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
	socket := c.setup.socketOf(c)
	if !isTCP || socket == nil {
		return io.Copy(w, struct{ io.Reader }{c})
	}
	return c.setup.splice(dst, c, socket, math.MaxInt64, dst.ReadFrom)
}

// fewBytes are read and written, and more are spliced.
const fewBytes = 4 << 10

// splice copies up to limit bytes, or until EOF, from src, which is or wraps socket, to dst. It waits
// for input with an ordinary Read. If that fills a small buffer, move takes what else has arrived. So a
// wait is reported to the source or to the destination, whichever it is for, and other goroutines can
// write to the destination while the source is silent.
func (s *Setup) splice(dst io.Writer, src io.Reader, socket net.Conn, limit int64, move copyFunc) (total int64, err error) {
	from := s.connIn(src)
	b := make([]byte, fewBytes)
	for total < limit {
		n, readErr := src.Read(b[:min(fewBytes, limit-total)])
		if n > 0 {
			written, err := dst.Write(b[:n])
			total += int64(written)
			if err != nil {
				return total, err
			}
		}
		if readErr == io.EOF {
			return total, nil
		}
		if readErr != nil {
			return total, readErr
		}
		if n < fewBytes {
			continue
		}
		ready := kernel.InspectConn(socket).Unread
		if ready <= fewBytes {
			continue
		}
		moved, err := move(&io.LimitedReader{R: socket, N: min(int64(ready), largeStep, limit-total)})
		total += moved
		if from != nil {
			from.noteRead(int(moved))
			err = from.explain("writeto", err) // it may have timed out since its Read; move has explained errors of dst
		}
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// noteRead reports that n bytes were read past Read.
func (c *Conn) noteRead(n int) {
	c.lock(&c.reading)
	defer c.unlock(&c.reading)
	c.received(n, nil)
}

// socketOf returns the socket that r is, or that the Conn that it is wraps, if the kernel can splice
// from it. Otherwise it returns nil.
func (s *Setup) socketOf(r io.Reader) net.Conn {
	if !kernel.SeesOutput { // splice is Linux's
		return nil
	}
	if c := s.connIn(r); c != nil {
		r = c.bare()
	}
	// This matches *net.TCPConn, *net.UnixConn, and the type in which io.Copy
	// hides a *net.TCPConn.
	socket, ok := r.(interface {
		net.Conn
		CloseRead() error
	})
	if !ok || !definedIn("net", r) {
		return nil
	}
	if addr := socket.LocalAddr(); addr == nil || addr.Network() == "unixpacket" || addr.Network() == "unixgram" {
		return nil // a message has to be read whole
	}
	return socket
}

// sendFile copies up to limit bytes of a file, in steps. As in package net, no other write
// happens in between.
func (c *Conn) sendFile(file io.Reader, limit int64, move copyFunc) (total int64, err error) {
	c.lock(&c.writing)
	defer c.unlock(&c.writing)
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
		c.lock(&c.writing)
		defer c.unlock(&c.writing)
		return c.writeFrom(r.(*io.LimitedReader), move)
	}
}

// writeFrom calls move and reports it as a write. c.writing must be held.
func (c *Conn) writeFrom(r *io.LimitedReader, move copyFunc) (int64, error) {
	before := c.total
	c.mayWait(int(r.N)) // move doesn't tell when it waits
	n, err := move(r)
	c.endWrite(before, int(n), err)
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
