package idlehttp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// ResponseLimits are the limits of a response, for [Transport]. They count while its reader waits. Time in which
// a gateway doesn't read, because it waits for its own client, doesn't count.
//
// In every field, zero means no limit: only you know how long your upstream may think. At least one must be set. A
// negative value is an error, [Off] too. The shortest limit is 10 ms.
type ResponseLimits struct {
	// HeaderTimeout limits the time from when the request has been sent, with its body, to the end of the
	// response's header, like ResponseHeaderTimeout of http.Transport. Interim responses, such as 103 Early
	// Hints, don't extend it. If the request is redirected, or sent again on another connection, it starts over.
	//
	// The base reports this to net/http/httptrace by GetConn and WroteRequest, as http.Transport does. Whatever else
	// RoundTrip of the base waits for counts, and with a base that reports neither, all of it does. So a RoundTripper that
	// retries or fetches tokens belongs around the result of [Transport], not below it.
	HeaderTimeout time.Duration

	// BodyTimeout limits how long a read of the body waits without a byte arriving. If the upstream sends
	// comments or pings into its stream, make it longer than their interval.
	BodyTimeout time.Duration

	// BodyRate is the minimum rate of the body, averaged over the time in which reads wait. A zero Grace means
	// 5 s. It's for downloads; a model may write more slowly than any rate.
	BodyRate idle.Rate
}

// Transport returns an http.RoundTripper that makes requests by base, and limits how long it waits for their
// responses, in HTTP/1 and HTTP/2. It's for gateways' upstreams and for other HTTP clients. A nil
// base means http.DefaultTransport.
//
// When a limit has passed, RoundTrip or a Read of the body fails with an error in which errors.As finds an
// [idle.TimeoutError]. Its Phase is "response header" or "response body", and its Setting the field of
// ResponseLimits. The context that base got is cancelled. So http.Transport closes a connection of HTTP/1. In
// HTTP/2 it resets the stream, and other requests of the connection go on. A timeout is never early, and late by
// about a tick: 1/50 of the shortest limit, from 10 to 100 ms.
//
// If a client of a gateway doesn't send its body in time, RoundTrip fails with an idle.TimeoutError too. Its Phase is
// "request" or "request stream". Answer nothing then, and the client gets a 408; the default ErrorHandler of
// httputil.ReverseProxy answers 502, as to a late upstream.
//
// All requests have the same limits. For others, make a second Transport with the same base: they share its
// connections. The following has no limit here:
//
//   - dialing and TLS handshakes: see net.Dialer and http.Transport;
//   - waiting for a free connection, and sending the request with its body: use a context;
//   - request and response as a whole: use a context, or Timeout of http.Client;
//   - a connection after 101 Switching Protocols, such as a WebSocket: its Body is the one that base returned.
//
// If http.Transport decompresses a body, the bytes that come out count.
//
// As always, close the body. What is tracked ends with the body, its Close, or the request's context. No request
// has a goroutine or a timer of its own. All together have one goroutine, which ends some time after the last
// response, so there is nothing to close. In a test with testing/synctest, call CloseIdleConnections of http.Client
// and sleep for a second. Then it has ended, unless a response is under way.
//
// Any number of goroutines may use the result. Transport fails if a limit is invalid. The error names the field
// and its value.
func Transport(base http.RoundTripper, limits ResponseLimits) (http.RoundTripper, error) {
	t := &transport{base: cmp.Or(base, http.DefaultTransport)}
	if err := cmp.Or(limits.check(), t.init(limits)); err != nil {
		return nil, fmt.Errorf("idlehttp: Transport: %w", err)
	}
	return t, nil
}

// check returns an error if l is invalid.
func (l *ResponseLimits) check() error {
	const shortest = 10 * time.Millisecond // of idle.TickFor
	for name, d := range map[string]time.Duration{"HeaderTimeout": l.HeaderTimeout, "BodyTimeout": l.BodyTimeout, "BodyRate.Grace": l.BodyRate.Grace} {
		if d != 0 && d < shortest {
			return fmt.Errorf("%s is %v; use 0 to disable it, or at least %v", name, d, shortest)
		}
	}
	switch r := l.BodyRate; {
	case *l == ResponseLimits{}:
		return errors.New("no limit is set; set HeaderTimeout, BodyTimeout or BodyRate")
	case r.BytesPerSecond < 0:
		return fmt.Errorf("BodyRate.BytesPerSecond is %d; use 0 to disable it", r.BytesPerSecond)
	case r.BytesPerSecond == 0 && r.Grace != 0:
		return fmt.Errorf("BodyRate.BytesPerSecond is 0, but its Grace is %v; set both, or none", r.Grace)
	}
	return nil
}

// A transport tracks each wait for a header, and each body from its first Read on: nobody needs to close one that is empty.
type transport struct {
	base         http.RoundTripper
	tracker      *idle.Tracker // never closed: without a connection it's collected like any other value
	header, body *idle.Phase
	hooks        idle.Hooks
}

// init makes the tracker. It refuses limits that are too long.
func (t *transport) init(l ResponseLimits) (err error) {
	if l.BodyRate.BytesPerSecond > 0 {
		l.BodyRate.Grace = cmp.Or(l.BodyRate.Grace, 5*time.Second)
	}
	header := idle.Policy{Name: "response header", ReadTimeout: l.HeaderTimeout}
	body := idle.Policy{Name: "response body", ReadTimeout: l.BodyTimeout, MinReadRate: l.BodyRate}
	setting := func(phase string, r idle.Reason) string {
		if phase == header.Name {
			return "HeaderTimeout"
		}
		return map[idle.Reason]string{idle.ReasonRead: "BodyTimeout", idle.ReasonMinReadRate: "BodyRate"}[r]
	}
	t.hooks.Expire = func(owner any, err *idle.TimeoutError) { owner.(*trip).cancel(err) }
	t.tracker, err = idle.NewPhased(&idle.Options{Tick: idle.TickFor(header, body)}, setting)
	if err == nil {
		t.header, err = t.tracker.Phase(header)
	}
	if err == nil {
		t.body, err = t.tracker.Phase(body)
	}
	return err
}

// CloseIdleConnections is for http.Client. The visit wakes the tracker's goroutine, which ends if nothing is tracked.
func (t *transport) CloseIdleConnections() {
	(&http.Client{Transport: t.base}).CloseIdleConnections()
	t.tracker.Visit(context.Background(), func(idle.Info) {})
}

// RoundTrip makes a request and waits for the header of its response.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	x := &trip{transport: t}
	x.ctx, x.cancel = context.WithCancelCause(req.Context())
	x.track(&x.header, t.header)
	limited := req.WithContext(httptrace.WithClientTrace(x.ctx, &httptrace.ClientTrace{
		// WroteRequest of a connection that was lost may come late, even beside the GetConn of the next one. Then dialing
		// that counts.
		GetConn:      func(string) { x.header.PauseRead() },
		WroteRequest: func(httptrace.WroteRequestInfo) { x.header.PauseRead(); x.header.AwaitRead() },
	}))
	response, err := t.base.RoundTrip(limited)
	if !x.header.Stop() {
		if err == nil && response.Body != nil {
			response.Body.Close()
		}
		<-x.ctx.Done() // the tracker is about to cancel it
		err = x.ctx.Err()
	}
	if err != nil {
		defer x.cancel(nil)
		return nil, x.explain(err)
	}
	if response.Request == limited {
		response.Request = req
	}
	if response.Body == nil || response.Body == http.NoBody {
		x.cancel(nil)
	} else if _, upgraded := response.Body.(io.Writer); !upgraded { // else the base's own body may need the context
		x.ReadCloser, response.Body = response.Body, x
		x.unhook = context.AfterFunc(x.ctx, x.stop)
	}
	return response, nil
}

// A trip is a request and its response. It's also the response's body.
type trip struct {
	io.ReadCloser
	transport    *transport
	ctx          context.Context // of the request; the cause of its end may be a TimeoutError
	cancel       context.CancelCauseFunc
	header, body idle.Conn
	begun        sync.Once // the tracking of the body
	unhook       func() bool
}

// track starts to track the wait for a header or a body. That can't fail, because the tracker isn't closed and has no Capacity.
func (x *trip) track(c *idle.Conn, p *idle.Phase) {
	x.transport.tracker.Track(c, x, &x.transport.hooks)
	c.Enter(p)
}

func (x *trip) begin() { x.track(&x.body, x.transport.body) }

// stop ends the tracking of the body.
func (x *trip) stop() {
	x.begun.Do(x.begin)
	x.body.Stop()
}

// Read reads from the body. At its end the context isn't cancelled: in HTTP/2 the request's body may still be on its way.
func (x *trip) Read(p []byte) (n int, err error) {
	x.begun.Do(x.begin)
	x.body.AwaitRead()
	if n, err = x.ReadCloser.Read(p); n > 0 {
		x.body.Received(n)
	}
	x.body.PauseRead()
	if !x.body.Deliver() {
		<-x.ctx.Done()
		return 0, x.explain(x.ctx.Err())
	}
	if err != nil {
		x.stop()
		if err != io.EOF {
			err = x.explain(err)
		}
	}
	return n, err
}

// Close closes the body.
func (x *trip) Close() error {
	defer x.cancel(nil)
	x.unhook()
	x.stop()
	return x.ReadCloser.Close()
}

// explain returns the limit that has passed, if there is one, in place of err.
func (x *trip) explain(err error) error {
	if timeout := (*idle.TimeoutError)(nil); errors.As(context.Cause(x.ctx), &timeout) {
		return timeout
	}
	return err
}
