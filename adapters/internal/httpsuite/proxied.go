package httpsuite

import "net"

// A proxied is a listener behind the PROXY protocol. The address of its first connection isn't
// known until first is closed.
type proxied struct {
	net.Listener
	first    chan struct{}
	accepted int
}

func (l *proxied) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if l.accepted++; err == nil && l.accepted == 1 {
		c = late{c, l.first}
	}
	return c, err
}

type late struct {
	net.Conn
	known chan struct{}
}

func (c late) RemoteAddr() net.Addr {
	<-c.known
	return c.Conn.RemoteAddr()
}
