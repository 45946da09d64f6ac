package netconn

import (
	"net"
	"sync/atomic"
)

// An address is the peer's address of a connection that is not a plain socket. Its
// RemoteAddr may block: libraries for the PROXY protocol wait in it for the header.
type address struct {
	asked atomic.Bool   // somebody has begun to wait for addr
	known chan struct{} // closed when addr is set
	addr  net.Addr
}

// address returns the address of c, or nil for a socket.
func (c *Conn) address() *address {
	if x := c.extra.Load(); x != nil {
		return x.address
	}
	return nil
}

// learn asks nc for the peer's address. It is called once.
func (a *address) learn(nc net.Conn) {
	defer close(a.known)
	a.addr = nc.RemoteAddr()
}

// RemoteAddr returns the address that the wrapped connection reports. Unless that's a
// *net.TCPConn or *net.UnixConn, it is asked once, and may block.
func (c *Conn) RemoteAddr() net.Addr {
	a := c.address()
	if a == nil {
		return c.inner.RemoteAddr()
	}
	if !a.asked.Swap(true) {
		a.learn(c.inner)
	}
	<-a.known
	return a.addr
}

// KnownAddr returns the peer's address if it's known without waiting. Otherwise it returns nil,
// and a goroutine waits for the address. KnownAddr is for functions that must not block, such as
// Label of [idle.Options].
func (c *Conn) KnownAddr() net.Addr {
	a := c.address()
	if a == nil {
		return c.inner.RemoteAddr()
	}
	if !a.asked.Swap(true) {
		go a.learn(c.inner)
	}
	select {
	case <-a.known:
		return a.addr
	default:
		return nil
	}
}

// isSocket reports whether nc is a socket of package net, whose RemoteAddr doesn't block.
func isSocket(nc net.Conn) bool {
	switch nc.(type) {
	case *net.TCPConn, *net.UnixConn:
		return true
	}
	return false
}
