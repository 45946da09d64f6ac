package idlefasthttp

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/adapters/internal/httpconn"
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
type Listener struct{ *inner }

type inner = httpconn.Listener // under a name that is not exported

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
func Serve(s *fasthttp.Server, ln net.Listener, t Timeouts) error {
	return httpconn.Serve(s, ln, t, Wrap, s.Serve)
}

// ServeTLS is like [Serve] but serves HTTPS, as s.ServeTLS does.
func ServeTLS(s *fasthttp.Server, ln net.Listener, certFile, keyFile string, t Timeouts) error {
	return httpconn.Serve(s, ln, t, Wrap, func(l net.Listener) error { return s.ServeTLS(l, certFile, keyFile) })
}

// Wrap prepares s for the timeouts t and returns the listener to serve:
// s.Serve(l) or s.ServeTLS(l, ...). Use it instead of [Serve] to read the
// listener's counts, or for several listeners.
//
// ln may be a listener of crypto/tls, as for s.Serve. Package httplimits says
// which listeners are refused.
//
// Wrap replaces ConnState, HeaderReceived and Handler of s with functions that call the previous
// ones, so set these before and don't change them afterwards. It sets ErrorHandler if that is nil. s may be prepared
// for several listeners, but it must not serve yet.
//
// s must not have timeouts of its own, nor MaxConnsPerIP; PerKey of package adapters/admit replaces that, below the
// timeouts. If s gets one of these after Wrap, or another server serves the listener while s serves nothing, Accept
// fails, which ends Serve. So let s serve within a second of the first Accept of a listener on top, such as a
// multiplexer. If it wraps connections, its wrappers must embed a net.Conn or have a method NetConn.
func Wrap(s *fasthttp.Server, ln net.Listener, t Timeouts) (*Listener, error) {
	if err := cmp.Or(check(s), checkProtos("the listener's tls.Config", httpconn.TLSConfig(ln))); err != nil {
		return nil, err
	}
	inner, err := httpconn.NewListener("idlefasthttp", ln, t, httpconn.NoHTTP2)
	if err != nil {
		return nil, err
	}
	l := &Listener{inner}
	httpconn.SetServer(inner, s, s.ShutdownWithContext, func() (bool, error) {
		if !isServing(s) { // its fields may still change
			return false, nil
		}
		return true, checkOwn(s)
	})
	l.hook(s)
	return l, nil
}

// check returns an error if s has timeouts of its own, or protocols that it hands
// to someone else.
func check(s *fasthttp.Server) error {
	switch {
	case s == nil:
		return errors.New("idlefasthttp: the server is nil")
	case isServing(s):
		return errors.New("idlefasthttp: the server serves already; call Wrap for all of its listeners before Serve")
	case s.Handler == nil:
		return errors.New("idlefasthttp: Server.Handler is nil; set it before the listener is made")
	}
	return cmp.Or(checkOwn(s), checkProtos("Server.TLSConfig", s.TLSConfig))
}

// isServing reports whether s has begun to serve a listener.
func isServing(s *fasthttp.Server) bool { return s.GetOpenConnectionsCount() >= 0 } // it is -1 before Serve

// checkOwn returns an error if s has limits of its own that ours replace.
func checkOwn(s *fasthttp.Server) error {
	switch {
	case s.ReadTimeout > 0:
		return fmt.Errorf("idlefasthttp: Server.ReadTimeout is %v; leave it 0, and set Timeouts.HeaderTimeout and BodyTimeout", s.ReadTimeout)
	case s.WriteTimeout > 0:
		return fmt.Errorf("idlefasthttp: Server.WriteTimeout is %v; leave it 0, and set Timeouts.WriteTimeout", s.WriteTimeout)
	case s.IdleTimeout > 0:
		return fmt.Errorf("idlefasthttp: Server.IdleTimeout is %v; leave it 0, and set Timeouts.KeepAliveTimeout", s.IdleTimeout)
	case s.MaxConnsPerIP > 0: // its wrapper hides connections with TLS
		return fmt.Errorf("idlefasthttp: Server.MaxConnsPerIP is %d; leave it 0, and use PerKey of package adapters/admit below the timeouts", s.MaxConnsPerIP)
	}
	return nil
}

// checkProtos returns an error if config, unless it's nil, has a protocol other than HTTP/1. name
// names it in the error.
func checkProtos(name string, config *tls.Config) error {
	if config == nil {
		return nil
	}
	for _, proto := range config.NextProtos {
		if proto != "http/1.1" && proto != "http/1.0" {
			return fmt.Errorf("idlefasthttp: %s.NextProtos has %q; fasthttp does not report the states of connections that speak it, so they would have no timeouts; remove it", name, proto)
		}
	}
	return nil
}

// hook makes s report what happens to the connections of l.
func (l *Listener) hook(s *fasthttp.Server) {
	state, header, handler := s.ConnState, s.HeaderReceived, s.Handler
	s.ConnState = func(nc net.Conn, to fasthttp.ConnState) {
		if c := httpconn.Find(l.inner, nc); c != nil {
			onState(c, nc, to)
		}
		if state != nil {
			state(nc, to)
		}
	}
	s.HeaderReceived = func(h *fasthttp.RequestHeader) (c fasthttp.RequestConfig) {
		if header != nil {
			c = header(h)
		}
		if c.ReadTimeout <= 0 && hasBody(h) {
			c.ReadTimeout = httpconn.HeaderReadSignal
		}
		return c
	}
	s.Handler = func(ctx *fasthttp.RequestCtx) {
		c := httpconn.Find(l.inner, ctx.Conn())
		if c == nil {
			handler(ctx)
			return
		}
		c.HeaderRead()
		switch {
		case c.TimedOut(): // just before the server told of the request
			c.Close() // without an answer, so that the client may send the request again
			return
		case c.LimitsHandler():
			serveTimed(handler, ctx, c.Late())
		default:
			handler(ctx)
		}
		late := ctx.LastTimeoutErrorResponse() // if not nil, the rest of ctx belongs to a handler that still runs
		timeout := c.Timeout()
		switch status := httpconn.StatusOf(timeout); {
		case late == nil && status != 0:
			if !httpconn.IsOfReading(timeout) || !hasAnswered(&ctx.Response) {
				ctx.Response.Reset()
				ctx.SetStatusCode(status)
			}
			ctx.SetConnectionClose()
		case late == nil && ctx.Hijacked():
			c.WillHijack()
		case !c.IsTold():
		case late != nil:
			late.SetConnectionClose()
		default:
			ctx.SetConnectionClose()
		}
	}
	if s.ErrorHandler != nil { // the user's, or another listener's
		return
	}
	s.ErrorHandler = func(ctx *fasthttp.RequestCtx, err error) {
		status := 0
		if c := httpconn.Unwrap(ctx.Conn()); c != nil { // of any listener of s
			status = httpconn.StatusOf(c.Timeout())
		}
		if passed := net.Error(nil); status == 0 && errors.As(err, &passed) && passed.Timeout() { // somebody else's
			status = fasthttp.StatusRequestTimeout
		}
		switch small := (*fasthttp.ErrSmallBuffer)(nil); {
		case status != 0:
			ctx.Response.Reset()
			ctx.SetStatusCode(status)
		case errors.As(err, &small):
			ctx.Error("Too big request header", fasthttp.StatusRequestHeaderFieldsTooLarge)
		default:
			ctx.Error("Error when parsing request", fasthttp.StatusBadRequest)
		}
	}
}

// hasAnswered reports whether a handler seems to have made r.
func hasAnswered(r *fasthttp.Response) bool {
	return r.StatusCode() != fasthttp.StatusOK || r.IsBodyStream() || len(r.Body()) > 0
}

// serveTimed serves like handler, on a goroutine of its own. When late is closed it answers 503, and the handler goes
// on without the response. fasthttp sends that after the responses that it holds back.
func serveTimed(handler fasthttp.RequestHandler, ctx *fasthttp.RequestCtx, late <-chan struct{}) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		handler(ctx)
	}()
	select {
	case <-done:
	case <-late:
		var response fasthttp.Response
		response.SetStatusCode(fasthttp.StatusServiceUnavailable)
		response.SetConnectionClose()
		ctx.TimeoutErrorWithResponse(&response)
	}
}

// onState reports a new state to c. nc is c as its server knows it: c or a wrapper. Close or SetDeadline has reported
// the other states.
func onState(c *httpconn.Conn, nc net.Conn, to fasthttp.ConnState) {
	switch to {
	case fasthttp.StateNew:
		c.Accepted(nc)
	case fasthttp.StateActive:
		c.RequestBegun()
	case fasthttp.StateIdle:
		c.Idle()
	}
}

// LameDuck asks clients to leave while the servers of the listeners go on. It returns when the time d has passed. If
// ctx is done before, it's undone, and LameDuck returns the error of ctx. Call it before [Shutdown], with more time
// than load balancers need to notice that the server is leaving:
//
//	err := idlefasthttp.LameDuck(ctx, 10*time.Second, ln)
//	...
//	err = idlefasthttp.Shutdown(ctx, idle.Drain{Duration: 10 * time.Second, ForceAfter: 30 * time.Second}, ln)
//
// As soon as it's called, IsDraining of the listeners returns true, which a readiness check
// should report. Connections are accepted and requests served as before, but each response asks
// the client to close its connection. Connections that aren't used stay open.
func LameDuck(ctx context.Context, d time.Duration, listeners ...*Listener) error {
	return httpconn.LameDuck(ctx, "idlefasthttp", d, listeners)
}

// IsDraining reports whether all clients are asked to leave: from [LameDuck] or [Shutdown] on,
// and during a Drain of the tracker. Any goroutine may call it.
func (l *Listener) IsDraining() bool { return l.inner.IsDraining() }

// Shutdown shuts down the servers of the listeners in good order, as d says: it accepts no
// more connections, and drains those that are open ([idle.Tracker.Drain]), hijacked ones
// included. Then it calls ShutdownWithContext of each fasthttp.Server. Pass all listeners
// of a server together.
//
// The most idle connections are closed first. A client that is being served is asked to close its
// connection in the header of its next response. The connection is closed when it falls idle. No
// response that has begun is cut before d.ForceAfter. Set that, because otherwise Shutdown waits
// for a client that is never idle until ctx is done. A new connection has the rest of
// HandshakeTimeout (10 s if that is off) for its first request. A request that was sent too late
// is never read, so it isn't executed. HTTP clients repeat it by themselves if the method is
// idempotent.
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
	return httpconn.Shutdown(ctx, "idlefasthttp", d, listeners)
}

// hasBody reports whether a request has a body, of a known length or chunked. The server has to report that it has read the header of
// one. HeaderReceived doesn't know the connection, but the server sets that connection's read deadline from the ReadTimeout that it
// returns (see httpconn.HeaderReadSignal).
func hasBody(h *fasthttp.RequestHeader) bool {
	const chunked = -1
	n := h.ContentLength()
	return n > 0 || n == chunked
}

// Accept waits for the next connection. The server calls it. fasthttp stops
// serving at the first error, so Accept waits and tries again after a temporary
// one, such as a lack of descriptors, as net/http does.
func (l *Listener) Accept() (net.Conn, error) {
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		c, err := l.inner.Accept()
		if err == nil {
			return c, nil
		}
		if passing, ok := err.(interface{ Temporary() bool }); !ok || !passing.Temporary() {
			return nil, err
		}
		time.Sleep(wait)
	}
}

// Watch applies the policy p to c, the hijacked connection that a HijackHandler gets. Then the
// connection calls the functions of on, such as its Ping for p's active Heartbeat. Use it for
// WebSockets. Ping runs on a goroutine of its own and may block.
//
// fasthttp reuses c when the HijackHandler has returned. So the handler must not return
// while a function of on uses c. A Read fails when OnEnd has returned, or a second
// after OnEnd began if it is still running then. A Write that waits may fail before.
//
// With a passive Heartbeat, call Beat for each message that is one. With ExplicitUse, which a policy with an active Heartbeat and
// a longer IdleTimeout needs, call Use for each message that is use. The connection inside c has both:
// UnsafeConn of c returns that connection, or with TLS a *tls.Conn, whose NetConn returns it.
//
//	if b, ok := c.(interface{ UnsafeConn() net.Conn }).UnsafeConn().(interface{ Beat() }); ok { b.Beat() }
//
// The limits count from the call of Watch, except MaxAge, which counts from when the connection was
// accepted. They are as exact as Timeouts.Idle.Tick, which is 10 ms by default. Watch may be called
// again to apply another policy, such as one without limits.
//
// When a limit has passed, reads and writes of the WebSocket fail with an error
// in which errors.As finds an *idle.TimeoutError, unless the WebSocket library
// replaces it by its own. Timeouts.OnTimeout gets the original error.
//
// Watch fails if
//
//   - c is not a hijacked connection of a listener of this package;
//   - p is invalid;
//   - the connection is closed or has timed out, or its tracker is closed.
func Watch(c net.Conn, p idle.Policy, on Callbacks) error {
	return httpconn.Watch("idlefasthttp", c, p, on)
}

// Callbacks are the functions that [Watch] is given. See [httplimits.Callbacks], which both
// HTTP adapters share.
type Callbacks = httplimits.Callbacks
