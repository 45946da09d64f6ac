package idlenet

import (
	"errors"
	"net"
	"syscall"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/kernel"
)

// NetConn returns the connection that c wraps. What is read from it or written
// to it by itself is not seen as activity.
func (c *Conn) NetConn() net.Conn { return kernel.Unwrap(c.inner) }

// SyscallConn gives raw access to the wrapped connection, as
// *net.TCPConn.SyscallConn does; it fails with errors.ErrUnsupported if that
// has none. What moves by raw access is not seen as activity.
func (c *Conn) SyscallConn() (syscall.RawConn, error) {
	sc, ok := c.inner.(syscall.Conn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil, err
	}
	return rawConn{raw}, nil
}

// rawConn hides by which package os would know the connection's descriptor,
// and copy between it and a file past c.
type rawConn struct{ syscall.RawConn }

// CloseRead shuts down the reading side; see *net.TCPConn.CloseRead. Like the
// methods below it fails with errors.ErrUnsupported if the wrapped connection
// has no such method.
func (c *Conn) CloseRead() error {
	if inner, ok := c.inner.(interface{ CloseRead() error }); ok {
		return inner.CloseRead()
	}
	return errors.ErrUnsupported
}

// CloseWrite shuts down the writing side; see *net.TCPConn.CloseWrite.
func (c *Conn) CloseWrite() error {
	if inner, ok := c.inner.(interface{ CloseWrite() error }); ok {
		return inner.CloseWrite()
	}
	return errors.ErrUnsupported
}

// SetLinger sets what Close does with unsent data; see *net.TCPConn.SetLinger.
func (c *Conn) SetLinger(sec int) error {
	if inner, ok := c.inner.(interface{ SetLinger(int) error }); ok {
		return inner.SetLinger(sec)
	}
	return errors.ErrUnsupported
}

// SetNoDelay switches Nagle's algorithm; see *net.TCPConn.SetNoDelay.
func (c *Conn) SetNoDelay(noDelay bool) error {
	if inner, ok := c.inner.(interface{ SetNoDelay(bool) error }); ok {
		return inner.SetNoDelay(noDelay)
	}
	return errors.ErrUnsupported
}

// SetKeepAlive switches the kernel's keepalive; see *net.TCPConn.SetKeepAlive.
func (c *Conn) SetKeepAlive(on bool) error {
	if inner, ok := c.inner.(interface{ SetKeepAlive(bool) error }); ok {
		return inner.SetKeepAlive(on)
	}
	return errors.ErrUnsupported
}

// SetKeepAlivePeriod sets the period of the kernel's keepalive; see
// *net.TCPConn.SetKeepAlivePeriod.
func (c *Conn) SetKeepAlivePeriod(d time.Duration) error {
	if inner, ok := c.inner.(interface{ SetKeepAlivePeriod(time.Duration) error }); ok {
		return inner.SetKeepAlivePeriod(d)
	}
	return errors.ErrUnsupported
}

// SetKeepAliveConfig sets up the kernel's keepalive; see
// *net.TCPConn.SetKeepAliveConfig.
func (c *Conn) SetKeepAliveConfig(config net.KeepAliveConfig) error {
	if inner, ok := c.inner.(interface {
		SetKeepAliveConfig(net.KeepAliveConfig) error
	}); ok {
		return inner.SetKeepAliveConfig(config)
	}
	return errors.ErrUnsupported
}
