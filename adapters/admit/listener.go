package admit

import (
	"net"
	"sync"
)

// Listener returns a listener whose Accept closes connections that g refuses, and waits for the
// next one. The others count until they are closed, even while there is no limit. Close what Accept
// returns: closing the socket that its NetConn returns doesn't end the count.
//
// If ln's connections are neither *net.TCPConn nor *net.UnixConn, RemoteAddr may block, such as for
// a header of the PROXY protocol. So Accept applies only Limits.New. The first Read applies the
// limits per key, before it returns any byte. If it's refused, it closes the connection, and its
// error wraps [ErrRefused].
func (g *Gate) Listener(ln net.Listener) net.Listener { return &listener{ln, g} }

type listener struct {
	net.Listener
	gate *Gate
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c, err := l.gate.accept(nc); err == nil {
			return c, nil
		}
		nc.Close()
	}
}

func (g *Gate) accept(nc net.Conn) (net.Conn, error) {
	e := &entry{gate: g}
	switch nc := nc.(type) {
	case *net.TCPConn:
		return &tcpConn{nc, e}, e.count(nc.RemoteAddr(), false)
	case *net.UnixConn:
		return &unixConn{nc, e}, e.count(nc.RemoteAddr(), false)
	}
	identify := sync.OnceValue(func() error { return e.count(nc.RemoteAddr(), true) })
	return &lateConn{nc, e, identify}, e.count(nil, false)
}

// Each Close leaves first, so that a client that sees it can dial again at once. CountedSocket
// tells adapters/internal/netconn to use the socket for everything but Close.

type tcpConn struct {
	*net.TCPConn
	entry *entry
}

func (c *tcpConn) Close() error            { c.entry.leave(); return c.TCPConn.Close() }
func (c *tcpConn) NetConn() net.Conn       { return c.TCPConn }
func (c *tcpConn) CountedSocket() net.Conn { return c.TCPConn }

type unixConn struct {
	*net.UnixConn
	entry *entry
}

func (c *unixConn) Close() error            { c.entry.leave(); return c.UnixConn.Close() }
func (c *unixConn) NetConn() net.Conn       { return c.UnixConn }
func (c *unixConn) CountedSocket() net.Conn { return c.UnixConn }

// A lateConn is a connection whose address isn't known before its first Read.
type lateConn struct {
	net.Conn
	entry    *entry
	identify func() error
}

func (c *lateConn) Close() error      { c.entry.leave(); return c.Conn.Close() }
func (c *lateConn) NetConn() net.Conn { return c.Conn }
func (c *lateConn) Read(b []byte) (int, error) {
	if err := c.identify(); err != nil {
		c.Close()
		return 0, err
	}
	return c.Conn.Read(b)
}
