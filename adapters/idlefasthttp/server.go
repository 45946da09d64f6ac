package idlefasthttp

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/adapters/internal/httpconn"
	"github.com/idlewheel/idlewheel/idle"
)

// Timeouts says how long a connection may take for what. It is documented as
// [httplimits.Timeouts], for both HTTP adapters.
type Timeouts = httplimits.Timeouts

// Off disables a limit of [Timeouts].
const Off = httplimits.Off

// Stats are the counts of a [Listener]: see [httplimits.Stats].
type Stats = httplimits.Stats

// Listener is a net.Listener whose connections have timeouts; see package httplimits.
// Besides Accept, Addr and Close it has
//
//	Stats() Stats           // the present counts
//	Tracker() *idle.Tracker // tracks the connections
type Listener struct {
	*httpconn.Listener
	early bool // the server is Active only when a byte of a request is there
}

// Serve serves HTTP on ln with the timeouts t, as s.Serve does. It fails with
// an error that names the field if one makes no sense, or if s has timeouts of
// its own; ln is closed then. It is for a server with one listener, as it sets
// hooks of s: if there are more, call [NewListener] for all of them first.
func Serve(s *fasthttp.Server, ln net.Listener, t Timeouts) error {
	return httpconn.Serve(s, ln, t, NewListener, s.Serve)
}

// ServeTLS is [Serve] for HTTPS, as s.ServeTLS.
func ServeTLS(s *fasthttp.Server, ln net.Listener, certFile, keyFile string, t Timeouts) error {
	return httpconn.Serve(s, ln, t, NewListener, func(l net.Listener) error { return s.ServeTLS(l, certFile, keyFile) })
}

// NewListener prepares s for the timeouts t, and returns the listener on which
// it is to be served: s.Serve(l), or s.ServeTLS(l, ...). It is what [Serve]
// does, for those who want the listener's counts.
//
// ln may be a listener of crypto/tls, as it may for s.Serve; see package httplimits
// for what is refused.
//
// It sets ConnState, HeaderReceived and Handler of s to functions that call
// those which were there, so they must be set before, and not be changed any
// more. s can be prepared for several listeners.
func NewListener(s *fasthttp.Server, ln net.Listener, t Timeouts) (*Listener, error) {
	if err := check(s); err != nil {
		return nil, err
	}
	if t.StreamTimeout != 0 && t.StreamTimeout != Off {
		return nil, fmt.Errorf("idlefasthttp: StreamTimeout is %v, but fasthttp does not speak HTTP/2; leave it 0", t.StreamTimeout)
	}
	if config := httpconn.TLSConfig(ln); config != nil {
		if err := checkProtos("the listener's tls.Config", config.NextProtos); err != nil {
			return nil, err
		}
	}
	inner, err := httpconn.NewListener("idlefasthttp", ln, t, httpconn.NoHTTP2)
	if err != nil {
		return nil, err
	}
	l := &Listener{inner, s.ReduceMemoryUsage}
	l.hook(s, t.HandlerTimeout)
	return l, nil
}

// check refuses a server whose own timeouts would work against those here.
func check(s *fasthttp.Server) error {
	switch {
	case s == nil:
		return errors.New("idlefasthttp: the server is nil")
	case s.Handler == nil:
		return errors.New("idlefasthttp: Server.Handler is nil; set it before the listener is made")
	case s.ReadTimeout > 0:
		return fmt.Errorf("idlefasthttp: Server.ReadTimeout is %v; leave it 0, and set Timeouts.HeaderTimeout and BodyTimeout", s.ReadTimeout)
	case s.WriteTimeout > 0:
		return fmt.Errorf("idlefasthttp: Server.WriteTimeout is %v; leave it 0, and set Timeouts.WriteTimeout", s.WriteTimeout)
	case s.IdleTimeout > 0:
		return fmt.Errorf("idlefasthttp: Server.IdleTimeout is %v; leave it 0, and set Timeouts.KeepAliveTimeout", s.IdleTimeout)
	case s.TLSConfig == nil:
		return nil
	}
	return checkProtos("Server.TLSConfig", s.TLSConfig.NextProtos)
}

// checkProtos refuses protocols of config, a tls.Config of that name, other than
// HTTP/1.
func checkProtos(config string, protos []string) error {
	i := slices.IndexFunc(protos, func(proto string) bool { return proto != "http/1.1" && proto != "http/1.0" })
	if i < 0 {
		return nil
	}
	return fmt.Errorf("idlefasthttp: %s.NextProtos has %q; fasthttp does not tell what becomes of connections that speak it", config, protos[i])
}

// hook has s tell the connections of l what is going on.
func (l *Listener) hook(s *fasthttp.Server, handlerLimit time.Duration) {
	state, header, handler := s.ConnState, s.HeaderReceived, s.Handler
	tell := func(nc net.Conn, to fasthttp.ConnState) {
		// Twice a request, and most often all is known, or noted at once.
		if c, plain := nc.(*httpconn.Conn); plain {
			if to == fasthttp.StateActive && !c.Buffered() || to == fasthttp.StateIdle && c.Rested() {
				return
			}
		}
		l.changed(nc, to)
	}
	s.ConnState = tell
	if state != nil {
		s.ConnState = func(nc net.Conn, to fasthttp.ConnState) {
			tell(nc, to)
			state(nc, to)
		}
	}
	s.HeaderReceived = headerReceived
	if header != nil {
		s.HeaderReceived = func(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
			own, c := header(h), headerReceived(h)
			if own.ReadTimeout <= 0 {
				own.ReadTimeout = c.ReadTimeout
			}
			return own
		}
	}
	if handlerLimit > 0 {
		s.Handler = func(ctx *fasthttp.RequestCtx) {
			if c := httpconn.Find(l.Listener, ctx.Conn()); c != nil {
				c.HeaderRead()
			}
			handler(ctx)
		}
	}
}

// headerReceived has the server tell the connection, which is not known here, but
// of which it sets the deadline. That matters only if a body follows, of a length
// or in chunks.
func headerReceived(h *fasthttp.RequestHeader) (c fasthttp.RequestConfig) {
	const chunked = -1
	if n := h.ContentLength(); n > 0 || n == chunked {
		c.ReadTimeout = httpconn.HeaderTimeout
	}
	return c
}

// changed tells the connection that nc is or wraps of its state.
func (l *Listener) changed(nc net.Conn, to fasthttp.ConnState) {
	if to == fasthttp.StateClosed || to == fasthttp.StateHijacked {
		return // Close, or SetDeadline, has told; and the wrapper may be another's by now
	}
	c := httpconn.Find(l.Listener, nc)
	switch {
	case c == nil:
	case to == fasthttp.StateIdle:
		c.Idle()
	case to == fasthttp.StateActive:
		c.Shaken(l.early)
		c.Begun()
	case to == fasthttp.StateNew:
		c.Accepted(nc)
	}
}

// Accept waits for the next connection. It is the server's to call. A server of
// fasthttp gives up at the first error, so those that pass, such as a lack of
// descriptors, are waited for here, as net/http does.
func (l *Listener) Accept() (net.Conn, error) {
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		c, err := l.Listener.Accept()
		if err == nil {
			return c, nil
		}
		if passing, ok := err.(interface{ Temporary() bool }); !ok || !passing.Temporary() {
			return nil, err
		}
		time.Sleep(wait)
	}
}

// Watch puts a hijacked connection, as its HijackHandler gets it, under the
// policy p, and calls ping, which may block, as p's active Heartbeat says. It
// is for WebSockets.
//
// All limits count from the call, the age too. A policy that wants a finer tick
// than the listener has gets it, unless Timeouts.Idle.Tick is set. Watch may be
// called again, for another policy; one without limits lets the connection go, as
// after a hijack.
//
// When a limit is passed, the reads and writes of the WebSocket fail with an error
// in which errors.As finds an *idle.TimeoutError, unless the library in between
// replaces it by one of its own. Timeouts.OnTimeout gets the original.
//
// Watch fails if c is not a connection of l's that was hijacked; if something in p
// makes no sense; if the connection is closed or has timed out; and if l is closed
// and was left without any connection that has limits, so that its timeouts have
// ended.
func (l *Listener) Watch(c net.Conn, p idle.Policy, ping func() error) error {
	return httpconn.Watch(l.Listener, c, p, ping)
}
