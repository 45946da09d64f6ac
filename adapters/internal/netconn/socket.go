package netconn

import (
	"errors"
	"net"
	"syscall"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/kernel"
)

// NetConn returns the connection that c wraps. Reads and writes on it don't count as activity.
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

// forward calls f with the connection that c wraps, if that is a T. Otherwise it fails with
// errors.ErrUnsupported.
func forward[T any](c *Conn, f func(T) error) error {
	if inner, ok := c.inner.(T); ok {
		return f(inner)
	}
	return errors.ErrUnsupported
}

// The methods below do what those of *net.TCPConn do. If the wrapped connection doesn't have the
// method, they return errors.ErrUnsupported.

func (c *Conn) CloseRead() error {
	return forward(c, func(nc interface{ CloseRead() error }) error { return nc.CloseRead() })
}

func (c *Conn) CloseWrite() error {
	return forward(c, func(nc interface{ CloseWrite() error }) error { return nc.CloseWrite() })
}

func (c *Conn) SetLinger(sec int) error {
	return forward(c, func(nc interface{ SetLinger(int) error }) error { return nc.SetLinger(sec) })
}

func (c *Conn) SetNoDelay(on bool) error {
	return forward(c, func(nc interface{ SetNoDelay(bool) error }) error { return nc.SetNoDelay(on) })
}

func (c *Conn) SetKeepAlive(on bool) error {
	return forward(c, func(nc interface{ SetKeepAlive(bool) error }) error { return nc.SetKeepAlive(on) })
}

func (c *Conn) SetKeepAlivePeriod(d time.Duration) error {
	return forward(c, func(nc interface{ SetKeepAlivePeriod(time.Duration) error }) error { return nc.SetKeepAlivePeriod(d) })
}

func (c *Conn) SetKeepAliveConfig(config net.KeepAliveConfig) error {
	type setter interface {
		SetKeepAliveConfig(net.KeepAliveConfig) error
	}
	return forward(c, func(nc setter) error { return nc.SetKeepAliveConfig(config) })
}
