package netconn

import (
	"net"
	"sync/atomic"
)

// An address is the peer's address of a connection that is not a plain socket. Its
// RemoteAddr may block: libraries for the PROXY protocol wait in it for the header.
//
// A tracker that counts by address counts such a connection only then, and may find that there is
// no room for it. A request may have come with the header, and must not be executed:
//
//	learn: stores addr, then calls Rekey, then sets turnedAway, then closes counted
//	Read:  has read the request, waits for counted, and sees turnedAway
type address struct {
	asked   atomic.Bool   // somebody has begun to wait for addr
	known   chan struct{} // closed when addr is set
	counted chan struct{} // closed when the connection is counted by it, or turned away
	addr    net.Addr
}

func newAddress() *address {
	return &address{known: make(chan struct{}), counted: make(chan struct{})}
}

// isKnown reports whether addr is set.
func (a *address) isKnown() bool {
	select {
	case <-a.known:
		return true
	default:
		return false
	}
}

// address returns the address of c, or nil for a socket.
func (c *Conn) address() *address {
	if x := c.extra.Load(); x != nil {
		return x.address
	}
	return nil
}

// learn asks for the peer's address, and then has the connection counted with its key. It is called
// once.
func (c *Conn) learn(a *address) {
	defer close(a.counted)
	func() {
		defer close(a.known)
		a.addr = c.inner.RemoteAddr()
	}()
	c.rekey()
}

// rekey has the connection counted by its key, or turned away.
func (c *Conn) rekey() {
	if !c.tracking().Rekey() {
		c.flags.Or(turnedAway)
	}
}

// mayStay reports whether there is room for the connection, of which something was read. If
// its address has been asked for, it waits until that is known. It need not be called again
// once it has returned true.
func (c *Conn) mayStay() bool {
	a := c.address()
	if !a.asked.Load() {
		return true
	}
	<-a.counted
	if c.flags.Load()&turnedAway != 0 {
		return false
	}
	c.flags.And(^uint32(uncounted))
	return true
}

// RemoteAddr returns the address that the wrapped connection reports. Unless that's a
// *net.TCPConn or *net.UnixConn, it is asked once, and may block.
func (c *Conn) RemoteAddr() net.Addr {
	a := c.address()
	if a == nil {
		return c.inner.RemoteAddr()
	}
	if !a.asked.Swap(true) {
		c.learn(a)
	}
	<-a.known
	return a.addr
}

// KnownAddr returns the peer's address if it's known without waiting. Otherwise it returns nil,
// and a goroutine waits for the address. KnownAddr is for functions that must not block, such as
// Label of [idle.Options] and Key of [idle.Capacity].
func (c *Conn) KnownAddr() net.Addr {
	a := c.address()
	if a == nil {
		return c.inner.RemoteAddr()
	}
	if a.isKnown() {
		return a.addr
	}
	if !a.asked.Swap(true) {
		go c.learn(a)
	}
	return nil
}

// isSocket reports whether nc is a socket of package net, whose RemoteAddr doesn't block.
func isSocket(nc net.Conn) bool {
	switch nc.(type) {
	case *net.TCPConn, *net.UnixConn:
		return true
	}
	return false
}
