package httpconn

import (
	"crypto/tls"
	"net"

	"github.com/idlewheel/idlewheel/adapters/internal/netconn"
)

// Accepted records that the server begins to serve the connection. nc is what the
// server serves: c itself or a wrapper.
func (c *Conn) Accepted(nc net.Conn) {
	if carriesTLS(nc) || c.listener.secure {
		secure, _ := nc.(*tls.Conn) // nil if nc is another wrapper, which may be reused for another connection
		c.extra.Update(func(x *extra) { x.carriesTLS, x.secure = true, secure })
	}
	c.transition(unserved, waiting)
}

// IsSecure reports whether the connection carries TLS.
func (c *Conn) IsSecure() bool {
	x := c.extra.Load()
	return x != nil && x.carriesTLS
}

// RequestBegun records that the server has a byte of a request, perhaps from a read of the previous one. So a TLS
// handshake has ended. fasthttp reports that.
func (c *Conn) RequestBegun() {
	if c.state.Load() == waiting {
		c.heard = true
		if c.phase == Handshake && c.IsSecure() {
			c.enter(Header)
		}
	}
}

// HeaderRead records that the header of a request has been read.
func (c *Conn) HeaderRead() {
	switch c.state.Load() {
	case waiting:
		if c.isHTTP2() { // and its preface has been read
			t := c.newTraffic()
			c.extra.Update(func(x *extra) { x.traffic = t })
			c.transition(waiting, http2Idle)
			if c.phase != Handshake { // without TLS the preface looks like the header of a request
				c.enter(Handshake)
			}
			return
		}
		c.transition(waiting, request)
		c.countRequest()
		if c.listener.http2 != NoHTTP2 {
			c.ReadAhead(true) // until the handler reads the body
		}
		c.enter(Request)
	case http2Idle: // a stream begins
		c.transition(http2Idle, http2)
		c.countRequest()
		c.Conn.Enter(c.listener.phases[Streams])
	}
}

// isHTTP2 reports, at the first request of a connection, whether it is HTTP/2.
func (c *Conn) isHTTP2() bool {
	if x := c.extra.Load(); x != nil && x.secure != nil && c.phase == Handshake {
		return x.secure.ConnectionState().NegotiatedProtocol == "h2"
	}
	return c.prefaceLen == uint8(len(preface))
}

// isParsing reports whether the server may have been given a header, of HTTP/1 or 2, and not have reported it yet. A limit
// that passes in that moment would cut a request that has arrived in time.
func (c *Conn) isParsing() bool {
	state := c.state.Load() &^ flags
	return (state == waiting || state == http2Idle) && !c.IsReading()
}

// ReadBody reports that the handler, or the server for it, begins to read the body of a request of HTTP/1, or has ended that. Only
// within such a read the limits of the body count. Other reads find out whether the client is still there. net/http begins
// them beside the handler.
func (c *Conn) ReadBody(begins bool) {
	if c.state.Load()&^flags == request {
		c.ReadAhead(!begins)
	}
}

// Idle records that the response has been sent, and that the connection waits for the
// next request.
func (c *Conn) Idle() {
	switch {
	case c.transition(request, waiting) || c.transition(waiting, waiting):
		c.heard = false
		c.ReadAhead(false)
		c.enter(KeepAlive)
	case c.state.Load()&^flags == http2:
		c.traffic().rest()
		c.transition(http2, http2Idle)
		c.Conn.Enter(c.listener.phases[KeepAlive])
	}
}

// Hijack records that the connection has been handed over.
func (c *Conn) Hijack() {
	for from := range uint32(hijacked) {
		if c.transition(from, hijacked) {
			c.ReadAhead(false)
			c.Conn.Enter(c.listener.phases[Hijacked])
			return
		}
	}
}

// WillHijack records that the server will hand the connection over when it has sent the response.
// It then calls SetDeadline.
func (c *Conn) WillHijack() { c.state.Or(handsOver) }

// Find returns the connection of l that nc is or wraps, or nil if there is none.
func Find(l *Listener, nc net.Conn) *Conn {
	if c := Unwrap(nc); c != nil && c.listener == l {
		return c
	}
	return nil
}

// Unwrap returns the connection that nc is or wraps, or nil if there is none. It looks through wrappers that embed a
// net.Conn or have a method for it.
func Unwrap(nc net.Conn) *Conn {
	for nc != nil {
		switch wrapper := nc.(type) {
		case *Conn:
			return wrapper
		case interface{ NetConn() net.Conn }:
			nc = wrapper.NetConn()
		case interface{ UnsafeConn() net.Conn }: // a hijacked connection of fasthttp
			nc = wrapper.UnsafeConn()
		case interface{ Raw() net.Conn }: // go-proxyproto
			nc = wrapper.Raw()
		default:
			nc = netconn.Embedded(nc)
		}
	}
	return nil
}
