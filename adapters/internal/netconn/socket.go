package netconn

import (
	"errors"
	"net"
	"syscall"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/kernel"
)

// NetConn returns the connection that c wraps. Reads and writes on it are not
// seen as activity.
func (c *Conn) NetConn() net.Conn {
	if c.userDeadlines.Load()&exposed == 0 {
		c.userDeadlines.unlock(c.userDeadlines.lock() | exposed)
	}
	return c.bare()
}

// bare is NetConn for this package's own use.
func (c *Conn) bare() net.Conn { return kernel.Unwrap(c.inner) }

// RawConn returns what SyscallConn of the connection that c wraps does. It is not named
// so because callers take that method as a promise: go-redis and others discard a
// connection whose SyscallConn fails.
func (c *Conn) RawConn() (syscall.RawConn, error) {
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

// rawConn hides the type of package net. Package os would otherwise recognise the
// descriptor and copy between it and a file directly, past c.
type rawConn struct{ syscall.RawConn }

// CloseRead shuts down the reading side; see CloseRead of *net.TCPConn. Like the
// methods below, it fails with errors.ErrUnsupported if the wrapped connection
// has no such method.
func (c *Conn) CloseRead() error {
	if inner, ok := c.inner.(interface{ CloseRead() error }); ok {
		return inner.CloseRead()
	}
	return errors.ErrUnsupported
}

// CloseWrite shuts down the writing side; see CloseWrite of *net.TCPConn.
func (c *Conn) CloseWrite() error {
	if inner, ok := c.inner.(interface{ CloseWrite() error }); ok {
		return inner.CloseWrite()
	}
	return errors.ErrUnsupported
}

// SetLinger sets what Close does with unsent data; see SetLinger of *net.TCPConn.
func (c *Conn) SetLinger(sec int) error {
	if inner, ok := c.inner.(interface{ SetLinger(int) error }); ok {
		return inner.SetLinger(sec)
	}
	return errors.ErrUnsupported
}

// SetNoDelay switches Nagle's algorithm off or on; see SetNoDelay of
// *net.TCPConn.
func (c *Conn) SetNoDelay(noDelay bool) error {
	if inner, ok := c.inner.(interface{ SetNoDelay(bool) error }); ok {
		return inner.SetNoDelay(noDelay)
	}
	return errors.ErrUnsupported
}

// SetKeepAlive switches the kernel's keepalive on or off; see SetKeepAlive of
// *net.TCPConn.
func (c *Conn) SetKeepAlive(on bool) error {
	if inner, ok := c.inner.(interface{ SetKeepAlive(bool) error }); ok {
		return inner.SetKeepAlive(on)
	}
	return errors.ErrUnsupported
}

// SetKeepAlivePeriod sets the period of the kernel's keepalive; see
// SetKeepAlivePeriod of *net.TCPConn.
func (c *Conn) SetKeepAlivePeriod(d time.Duration) error {
	if inner, ok := c.inner.(interface{ SetKeepAlivePeriod(time.Duration) error }); ok {
		return inner.SetKeepAlivePeriod(d)
	}
	return errors.ErrUnsupported
}

// SetKeepAliveConfig configures the kernel's keepalive; see SetKeepAliveConfig of
// *net.TCPConn.
func (c *Conn) SetKeepAliveConfig(config net.KeepAliveConfig) error {
	if inner, ok := c.inner.(interface {
		SetKeepAliveConfig(net.KeepAliveConfig) error
	}); ok {
		return inner.SetKeepAliveConfig(config)
	}
	return errors.ErrUnsupported
}
