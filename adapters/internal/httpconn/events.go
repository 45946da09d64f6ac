package httpconn

import (
	"crypto/tls"
	"net"
	"time"
	"unsafe"
)

// Accepted notes that the server begins to serve the connection, as nc, which is
// it or wraps it.
func (c *Conn) Accepted(nc net.Conn) {
	if _, shakes := nc.(interface{ ConnectionState() tls.ConnectionState }); shakes {
		secure, _ := nc.(*tls.Conn) // else it is a wrapper, of which nobody knows how long it lives
		c.extra.Store(&extra{secure: secure})
		c.shaking = true
	}
	c.become(refused, waiting)
}

// Shaken notes that a TLS handshake is over, and whether a byte of a request is
// there already.
func (c *Conn) Shaken(begun bool) {
	if c.shaking && begun {
		c.begun = arrived
	}
	c.shaking = false
}

// Buffered reports whether a request may have begun of which no byte has been read
// since the one before.
func (c *Conn) Buffered() bool { return c.begun == not }

// Begun notes that the first byte of a request, which is not the first one of
// the connection, is there.
func (c *Conn) Begun() {
	if c.begun == not && c.phase != Handshake {
		c.begun = buffered
		if c.phase == Header { // of the request before
			c.phase = none
		}
	}
}

// HeaderRead notes that the header of a request has been read. A server need not
// tell of a request that has no body, as it will be Idle before it reads again.
func (c *Conn) HeaderRead() {
	switch c.state.Load() {
	case waiting:
		if c.isHTTP2() {
			c.become(waiting, http2)
			c.Conn.Enter(c.listener.phases[Streams])
			return
		}
		c.shaking = false
		to := uint32(reading)
		if c.begun == buffered { // the response before may be so as well, and an answer would pass for it
			to |= responded
		}
		c.become(waiting, to)
		if c.listener.timeouts.HandlerTimeout > 0 {
			c.enter(Request)
		}
	case http2:
		c.Conn.Enter(c.listener.phases[Streams])
	}
}

// isHTTP2 tells by the first request of a connection whether it is HTTP/2.
func (c *Conn) isHTTP2() bool {
	if x := c.extra.Load(); x != nil && x.secure != nil && c.phase == Handshake {
		return x.secure.ConnectionState().NegotiatedProtocol == "h2"
	}
	return c.magic == uint8(len(preface))
}

// Idle notes that the response has been sent, and the connection waits for the
// next request.
func (c *Conn) Idle() {
	if !c.Rested() {
		c.rest()
	}
}

// Rested is Idle for most connections, and reports whether c is one of them. If it
// is not, Idle has to be called.
func (c *Conn) Rested() bool {
	if c.state.Load() != waiting || c.phase == Handshake {
		return false
	}
	c.begun = not
	return true
}

// rest is the slow path of Idle.
func (c *Conn) rest() {
	switch {
	case c.become(reading, waiting) || c.become(waiting, waiting):
	case c.become(working, waiting):
		c.ReadAhead(false)
	case c.become(hijacked, waiting): // it was not, though somebody has set its deadlines
		if !c.regain() {
			c.Close() // rather than serve it without limits
			return
		}
		c.enter(KeepAlive)
	default:
		c.Conn.Enter(c.listener.phases[KeepAlive])
		return
	}
	c.begun = not
	if c.phase == Handshake {
		c.phase = none
	}
}

// Find returns the connection of l that nc is or wraps, nil if it is none.
func Find(l *Listener, nc net.Conn) *Conn {
	if c, ok := nc.(*Conn); ok && c.listener == l {
		return c
	}
	if c := l.unwrap(nc); c != nil && c.listener == l {
		return c
	}
	return nil
}

// unwrap finds the connection that nc wraps.
//
// Some wrappers have no way to reach what they wrap. But they all pass deadlines
// on, so the connection can be called by one, to make itself known.
func (l *Listener) unwrap(nc net.Conn) (found *Conn) {
	// fasthttp's wrapper panics if Shutdown has just closed it.
	defer func() { _ = recover() }()
	for {
		switch wrapper := nc.(type) {
		case *Conn:
			return wrapper
		case interface{ NetConn() net.Conn }:
			nc = wrapper.NetConn()
		case interface{ UnsafeConn() net.Conn }: // fasthttp's hijacked ones
			nc = wrapper.UnsafeConn()
		default:
			return l.callOut(nc)
		}
	}
}

// callOut calls the connection that a wrapper hides.
func (l *Listener) callOut(nc net.Conn) *Conn {
	l.calling.Lock()
	defer l.calling.Unlock()
	defer func() { l.called = nil }() // or it could not be collected
	nc.SetReadDeadline(l.call())
	return l.called
}

// Signals are deadlines that nobody would set: later than the year 2200.
const signals = 8_000_000_000

func isSignal(t time.Time) bool { return t.Unix() > signals }

// call is the signal to a connection of l's to make itself known.
func (l *Listener) call() time.Time {
	return time.Unix(signals+1, int64(uintptr(unsafe.Pointer(l))>>4&0xfff_ffff))
}

// HeaderTimeout is a timeout by which fasthttp tells that it has read a header:
// the deadline that comes of it is a signal.
const HeaderTimeout = 250 * 365 * 24 * time.Hour

func (c *Conn) signalled(t time.Time) {
	switch l := c.listener; {
	case t.Equal(l.call()):
		l.called = c // the caller is below us, and holds the mutex
	case t.Unix() != signals+1:
		c.HeaderRead()
	}
}
