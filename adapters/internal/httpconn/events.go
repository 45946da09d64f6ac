package httpconn

import (
	"crypto/tls"
	"net"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/netconn"
)

// Accepted records that the server begins to serve the connection. nc is what the
// server serves: c itself or a wrapper.
func (c *Conn) Accepted(nc net.Conn) {
	if carriesTLS(nc) || c.listener.secure {
		secure, _ := nc.(*tls.Conn) // nil if nc is another wrapper, which may be reused for another connection
		c.extra.Store(&extra{secure: secure})
		c.records.overhead = overheadUnknown
		if secure != nil {
			c.records.overhead = overheadLater
		}
	}
	c.transition(unserved, awaitingHeader)
}

// HandshakeDone records that a TLS handshake has ended and a byte of a request has arrived.
func (c *Conn) HandshakeDone() {
	if c.handshaking() {
		c.begun = begunAlone
	}
}

// MayBePipelined reports whether no byte has been read since the previous request. If
// a request begins in this state, its first bytes were read together with the previous
// request: the client pipelines.
func (c *Conn) MayBePipelined() bool { return c.begun <= notBegunYet }

// RequestBegun records that the first byte of a request has been read. It has no effect
// on the first request of a connection.
func (c *Conn) RequestBegun() {
	if c.begun <= notBegunYet && c.phase != Handshake && c.state.Load() == awaitingHeader {
		c.begun = begunPipelined
		switch c.phase {
		case Header: // of the previous request
			c.phase = none
		case Request: // of the previous request; without HandlerTimeout, HeaderRead may not be called
			c.enter(body)
		}
	}
}

// HandlerStarts is HeaderRead for a request whose handler is about to start. It does nothing if no limit
// counts for the handler, nor goes on counting.
func (c *Conn) HandlerStarts() {
	if c.phase != KeepAlive && c.phase != body || LimitsHandlers(c.listener) {
		c.HeaderRead()
	}
}

// HeaderRead records that the header of a request has been read. The limits of the phases in which
// it arrived count until then, whatever the server does. So they end here. A keep-alive phase has limits
// on waits only, so the request may go on in it.
func (c *Conn) HeaderRead() {
	switch c.state.Load() {
	case awaitingHeader:
		if c.isHTTP2() { // and its preface has been read
			next := &extra{traffic: c.newTraffic()}
			if x := c.extra.Load(); x != nil {
				next.secure = x.secure
			}
			c.extra.Store(next)
			c.transition(awaitingHeader, http2Idle)
			if c.phase != Handshake { // without TLS the preface looks like the header of a request
				c.enter(Handshake)
			}
			return
		}
		if x := c.extra.Load(); c.records.overhead == overheadLater && x != nil && x.secure != nil {
			c.records.overhead = overheadOf(x.secure.ConnectionState())
		}
		to := uint32(readingBody)
		if c.begun == begunPipelined {
			to |= pipelined
		}
		c.transition(awaitingHeader, to)
		if LimitsHandlers(c.listener) {
			c.enter(Request)
		} else if c.phase != KeepAlive && c.phase != body {
			c.enter(body)
		}
	case http2Idle: // a stream begins
		c.transition(http2Idle, http2)
		c.firstRequest()
		c.Conn.Enter(c.listener.phases[Streams])
	}
}

// isParsing reports whether the server may have been given a header, of HTTP/1 or 2, and not have reported it yet. A limit
// that passes in that moment would cut a request that has arrived in time.
func (c *Conn) isParsing() bool {
	state := c.state.Load() &^ flags
	return (state == awaitingHeader || state == http2Idle) && !c.IsReading()
}

// isHTTP2 reports, at the first request of a connection, whether it is HTTP/2.
func (c *Conn) isHTTP2() bool {
	if x := c.extra.Load(); x != nil && x.secure != nil && c.phase == Handshake {
		return x.secure.ConnectionState().NegotiatedProtocol == "h2"
	}
	return c.prefaceLen == uint8(len(preface))
}

// Interim records whether what the server writes next are interim responses, after which a timeout
// can still answer the request. It's for TLS; otherwise isInterim tells. The server of a request
// that expects 100 Continue may write that at any time before the final response. So the adapter
// calls Interim(true) before it can, and Interim(false) before any of the final response is written.
func (c *Conn) Interim(on bool) {
	if on {
		c.state.Or(interim)
	} else {
		c.state.And(^uint32(interim))
	}
}

// IsSecure reports whether the connection carries TLS.
func (c *Conn) IsSecure() bool { return c.extra.Load() != nil }

// Idle records that the response has been sent and the connection waits for the
// next request.
func (c *Conn) Idle() {
	if !c.TryIdle() {
		c.idleSlow()
	}
}

// TryIdle is the fast path of Idle. It reports whether it applied; if not, call
// Idle.
func (c *Conn) TryIdle() bool {
	if c.state.Load() != awaitingHeader || !c.served.Load() { // after the first request, see transition
		return false
	}
	c.awaitsRequest()
	c.RestartWriteRate()
	return true
}

// idleSlow is the slow path of Idle.
func (c *Conn) idleSlow() {
	switch {
	case c.transition(readingBody, awaitingHeader) || c.transition(awaitingHeader, awaitingHeader):
	case c.transition(handling, awaitingHeader):
		c.ReadAhead(false)
	case c.state.Load()&^flags == http2:
		c.traffic().rest()
		c.transition(http2, http2Idle)
		c.Conn.Enter(c.listener.phases[noRequest])
		return
	default:
		return
	}
	c.awaitsRequest()
	c.RestartWriteRate()
	if c.phase == Handshake {
		c.phase = none
	}
}

// ListenerOf returns the listener that has accepted c.
func ListenerOf(c *Conn) *Listener { return c.listener }

// Find returns the connection of l that nc is or wraps, or nil if there is none.
func Find(l *Listener, nc net.Conn) *Conn {
	if c, ok := nc.(*Conn); ok && c.listener == l {
		return c
	}
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

// HeaderReadSignal is the ReadTimeout that idlefasthttp returns from HeaderReceived.
// The server turns it into a deadline, which is a signal that the header has been
// read. ExpectsSignal is the same if the request expects 100 Continue.
const (
	HeaderReadSignal = 250 * 365 * 24 * time.Hour
	ExpectsSignal    = HeaderReadSignal + time.Hour
	firstSignal      = 8_000_000_000 // the least deadline that may be a signal, in seconds since 1970: in the year 2223
)

// tellsByDeadlines reports whether the server of l sets a deadline when it has read a header.
// fasthttp does.
func (l *Listener) tellsByDeadlines() bool { return l.http2 == NoHTTP2 }

// onSignal acts on a deadline that is a signal. It reports whether t is one.
func (c *Conn) onSignal(t time.Time) bool {
	left := time.Until(t)
	near := func(signal time.Duration) bool { return signal-time.Minute <= left && left <= signal }
	expects := near(ExpectsSignal)
	if !c.listener.tellsByDeadlines() || !expects && !near(HeaderReadSignal) {
		return false
	}
	c.HeaderRead()
	if expects && c.IsSecure() {
		c.Interim(true)
	}
	return true
}
