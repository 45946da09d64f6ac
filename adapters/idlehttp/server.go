package idlehttp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/adapters/internal/httpconn"
	"github.com/idlewheel/idlewheel/adapters/internal/netconn"
	"github.com/idlewheel/idlewheel/idle"
)

// Timeouts sets the limits of each phase of a connection. See
// [httplimits.Timeouts], which both HTTP adapters share.
type Timeouts = httplimits.Timeouts

// Off disables a limit of [Timeouts].
const Off = httplimits.Off

// Stats holds the counts of a [Listener]. See [httplimits.Stats].
type Stats = httplimits.Stats

// Listener is a net.Listener whose connections have timeouts; see package
// httplimits.
type Listener struct {
	*inner
}

type inner = httpconn.Listener // under a name that is not exported

// Accept waits for the next connection and returns it. Servers call it. Connections for which
// an [idle.Capacity] has no room are refused, and Accept goes on waiting. If the process has
// no descriptor left, connections are evicted if there is a Capacity, and Accept goes on waiting too.
func (l *Listener) Accept() (net.Conn, error) { return l.inner.Accept() }

// Close closes the listener but none of its connections, whose timeouts stay in force. Its
// trackers end with the last connection.
func (l *Listener) Close() error { return l.inner.Close() }

// Addr returns the listener's address.
func (l *Listener) Addr() net.Addr { return l.inner.Addr() }

// Stats returns the current counts. Any goroutine may call it.
func (l *Listener) Stats() Stats { return l.inner.Stats() }

// Tracker returns the tracker of the connections, hijacked ones included. The tracker doesn't
// refer to l. So store the tracker, not the method value l.Tracker, which keeps l from being collected.
func (l *Listener) Tracker() *idle.Tracker { return l.inner.Tracker() }

// Serve serves HTTP on ln with the timeouts t, as s.Serve does. It fails if a
// field of t is invalid, and the error names the field. It also fails if s has
// timeouts of its own. In both cases it closes ln. Serve sets hooks of s, so it
// is for servers with one listener. For more of them, call [Wrap] for each
// before serving.
func Serve(s *http.Server, ln net.Listener, t Timeouts) error {
	return httpconn.Serve(s, ln, t, Wrap, s.Serve)
}

// ServeTLS is like [Serve] but serves HTTPS, as s.ServeTLS does.
func ServeTLS(s *http.Server, ln net.Listener, certFile, keyFile string, t Timeouts) error {
	return httpconn.Serve(s, ln, t, Wrap, func(l net.Listener) error { return s.ServeTLS(l, certFile, keyFile) })
}

// Wrap prepares s for the timeouts t and returns the listener to serve:
// s.Serve(l) or s.ServeTLS(l, ...). Use it instead of [Serve] to read the
// listener's counts, or for several listeners.
//
// ln may be a listener of crypto/tls, as for s.Serve. Package httplimits says
// which listeners are refused.
//
// Wrap replaces Handler, ConnState, ConnContext, BaseContext and ErrorLog of s with functions that call the
// previous ones, so set these before and don't change them afterwards. The new ErrorLog drops lines
// about handshakes that timed out. Also set Protocols before. s may be prepared for several
// listeners, and may also serve others, but it must not serve yet.
//
// If s gets timeouts of its own after Wrap, or another server serves the listener, Accept fails, which ends Serve. So
// let s serve within a second of the first Accept of a listener on top, such as a multiplexer. If it wraps
// connections, its wrappers must embed a net.Conn or have a method NetConn. HandshakeTimeout cuts connections that a
// wrapper hides, and the tracker's Logger gets one line about them.
func Wrap(s *http.Server, ln net.Listener, t Timeouts) (*Listener, error) {
	if err := check(s); err != nil {
		return nil, err
	}
	h2 := httpconn.OverTLS
	if s.Protocols != nil && s.Protocols.UnencryptedHTTP2() {
		h2 = httpconn.OverAny
	}
	inner, err := httpconn.NewListener("idlehttp", ln, t, h2)
	if err != nil {
		return nil, err
	}
	l := &Listener{inner}
	httpconn.SetServer(inner, s, s.Shutdown, l.hookServe(s))
	window := httpconn.DefaultWindow
	if s.HTTP2 != nil && s.HTTP2.MaxReceiveBufferPerConnection > 0 {
		window = s.HTTP2.MaxReceiveBufferPerConnection
	}
	httpconn.SetWindow(inner, window)
	l.hook(s)
	return l, nil
}

// hookServe makes s report when it begins to serve l. begun returns whether it has, and an error if it has timeouts
// of its own.
func (l *Listener) hookServe(s *http.Server) (begun func() (bool, error)) {
	var may atomic.Pointer[error]
	base := s.BaseContext
	s.BaseContext = func(ln net.Listener) context.Context {
		if l.mayBe(ln) {
			err := checkTimeouts(s)
			may.Store(&err)
		}
		if base == nil {
			return context.Background()
		}
		return base(ln)
	}
	return func() (bool, error) {
		if err := may.Load(); err != nil {
			return true, *err
		}
		return false, nil
	}
}

// mayBe reports whether ln is l, or may be a wrapper of it.
func (l *Listener) mayBe(ln net.Listener) bool {
	for inner := ln; inner != nil; inner = netconn.Embedded(inner) {
		if ours, ok := inner.(*Listener); ok {
			return ours == l
		}
	}
	return true
}

// check returns an error if s has timeouts of its own, or speaks protocols that
// cannot be tracked.
func check(s *http.Server) error {
	if s == nil {
		return errors.New("idlehttp: the server is nil")
	}
	if isServed(s) {
		return errors.New("idlehttp: the server serves already; call Wrap for all of its listeners before Serve")
	}
	for proto := range s.TLSNextProto {
		if proto != "h2" && proto != "http/1.1" && proto != "unencrypted_http2" {
			return fmt.Errorf("idlehttp: Server.TLSNextProto has %q; net/http does not report the states of connections that speak it, so they would have no timeouts; remove it", proto)
		}
	}
	return checkTimeouts(s)
}

// checkTimeouts returns an error if s has timeouts of its own.
func checkTimeouts(s *http.Server) error {
	for _, own := range []struct {
		name  string
		value time.Duration
		ours  string
	}{
		{"ReadTimeout", s.ReadTimeout, "HeaderTimeout and BodyTimeout"},
		{"ReadHeaderTimeout", s.ReadHeaderTimeout, "HeaderTimeout"},
		{"WriteTimeout", s.WriteTimeout, "WriteTimeout"},
		{"IdleTimeout", s.IdleTimeout, "KeepAliveTimeout"},
	} {
		if own.value > 0 {
			return fmt.Errorf("idlehttp: Server.%s is %v; leave it 0, and set Timeouts.%s", own.name, own.value, own.ours)
		}
	}
	return nil
}

// hook makes s report what happens to the connections of l.
func (l *Listener) hook(s *http.Server) {
	state, contextOf := s.ConnState, s.ConnContext
	s.ConnState = func(nc net.Conn, to http.ConnState) {
		if c := httpconn.Find(l.inner, nc); c != nil {
			onState(c, nc, to)
		}
		if state != nil {
			state(nc, to)
		}
	}
	s.ConnContext = func(ctx context.Context, nc net.Conn) context.Context {
		if contextOf != nil {
			ctx = contextOf(ctx, nc)
		}
		if c := httpconn.Find(l.inner, nc); c != nil {
			ctx = &connContext{Context: ctx, conn: c}
		}
		return ctx
	}
	s.ErrorLog = quiet(s.ErrorLog)
	next := s.Handler
	if next == nil {
		next = http.DefaultServeMux
	}
	s.Handler = &limiting{l, next}
}

// LameDuck asks clients to leave while the servers of the listeners go on. It returns when the time d has passed. If
// ctx is done before, it's undone, and LameDuck returns the error of ctx. Call it before [Shutdown], with more time
// than load balancers need to notice that the server is leaving:
//
//	err := idlehttp.LameDuck(ctx, 10*time.Second, ln)
//	...
//	err = idlehttp.Shutdown(ctx, idle.Drain{Duration: 10 * time.Second, ForceAfter: 30 * time.Second}, ln)
//
// As soon as it's called, IsDraining of the listeners returns true, which a readiness check
// should report. Connections are accepted and requests served as before, but each response asks
// the client to close its connection. In HTTP/2, a GOAWAY does that. Connections that aren't used
// stay open.
func LameDuck(ctx context.Context, d time.Duration, listeners ...*Listener) error {
	return httpconn.LameDuck(ctx, "idlehttp", d, listeners)
}

// IsDraining reports whether all clients are asked to leave: from [LameDuck] or [Shutdown] on,
// and during a Drain of the tracker. Any goroutine may call it.
func (l *Listener) IsDraining() bool { return l.inner.IsDraining() }

// Shutdown shuts down the servers of the listeners in good order, as d says: it accepts no
// more connections, and drains those that are open ([idle.Tracker.Drain]), hijacked ones
// included. Then it calls Shutdown of each http.Server. Only then does Serve
// return, with http.ErrServerClosed. Pass all listeners of a server together.
//
// The most idle connections are closed first. A client that is being served is asked to close its
// connection, in the header of its next response or, in HTTP/2, with a GOAWAY. The connection is
// closed when it falls idle. No response that has begun is cut before d.ForceAfter. Set that,
// because otherwise a client that is never idle holds Shutdown up until ctx is done. A new
// connection has the rest of HandshakeTimeout (10 s if that is off) for its first request. A
// request that was sent too late is never read, so it isn't executed. In HTTP/2 a GOAWAY says so, and clients
// repeat it. HTTP/1 clients do if the method is idempotent. A response that has begun, such as an event
// stream, can't ask its client any more.
//
// A CloseDelay of 0 means 2 s here, or ForceAfter if that is shorter. If a client uses its
// connection within that time, the response asks it to close the connection, so it loses no
// request. Only a client that sends a request after a longer pause, at the moment when its
// connection is closed, has to repeat it.
//
// Hijacked connections have their turn like others, with or without limits. OnDrain of [Watch] is
// called for them, and they are ended d.CloseDelay later, or, if busy then, as soon as a Read of them waits.
//
// Shutdown takes the place of a drain that somebody has begun by hand. If somebody begins one during
// Shutdown, that one goes on instead, and Shutdown waits for it. Shutdown fails if a value in d is
// invalid, if another Shutdown is under way, and with the error of ctx if ctx is done first. Then the
// connections that are left stay open.
func Shutdown(ctx context.Context, d idle.Drain, listeners ...*Listener) error {
	return httpconn.Shutdown(ctx, "idlehttp", d, listeners)
}

// onState reports a new state to c. nc is c as its server knows it: c or a
// wrapper.
func onState(c *httpconn.Conn, nc net.Conn, to http.ConnState) {
	switch to {
	case http.StateNew:
		c.Accepted(nc)
	case http.StateActive:
		c.HeaderRead()
	case http.StateIdle:
		c.Idle()
	case http.StateHijacked:
		c.Hijack()
	}
}
