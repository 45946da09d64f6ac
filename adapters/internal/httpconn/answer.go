package httpconn

import (
	"io"
	"net/http"

	"github.com/idlewheel/idlewheel/idle"
)

// onTimeout decides whether to keep the connection, which the user may.
func (c *Conn) onTimeout(err *idle.TimeoutError) bool {
	if err.Phase == KeepAlive.String() && err.Reason == idle.ReasonPhase && c.isReceiving(err.Limit) {
		return true
	}
	return c.ask(err)
}

// ask asks the user whether to keep the connection, or the stream.
func (c *Conn) ask(err *idle.TimeoutError) bool {
	ask := c.listener.now.Load().timeouts.OnTimeout
	return ask != nil && ask(c, err)
}

// onEnd counts the limit that has ended the connection, if it is one, and lets its server answer the request. Then it calls the
// user's OnEnd.
//
// After a drain, an eviction or an End, no answer is sent: it would invite the client to repeat a request that its handler may
// have.
func (c *Conn) onEnd(err *idle.TimeoutError) {
	if end := c.listener.now.Load().timeouts.OnEnd; end != nil {
		defer end(c, err)
	}
	state := c.state.Load() &^ closed
	if err.Limit > 0 {
		c.listener.counts.add(err)
		if state == unserved|foreign {
			c.listener.hidden.Do(c.listener.logHidden)
		}
	}
	switch state &^ flags {
	case hijacked: // no limit of the policy applies to what OnEnd writes
		if x := c.extra.Load(); x != nil && x.on.OnEnd != nil {
			x.on.OnEnd(err)
		}
	case http2Idle:
		c.sendGoAway()
	case waiting:
		if err.Limit > 0 && err.Phase == Header.String() {
			c.answer()
		}
	case request:
		if err.Limit > 0 {
			c.letAnswer(err)
		}
	}
}

// answer answers a request whose header is late. fasthttp does that itself, after responses that it holds back. net/http doesn't. It
// has nothing else to write meanwhile.
func (c *Conn) answer() {
	if c.listener.http2 == NoHTTP2 {
		c.LetWrite()
		return
	}
	if to := c.writer(); to != nil {
		io.WriteString(to, "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
	}
}

// letAnswer lets the server answer the request: reads fail, by which the server or its handler notices, and Late tells. After a limit of
// writing, writes fail at once instead.
func (c *Conn) letAnswer(err *idle.TimeoutError) {
	if x := c.extra.Load(); x != nil && x.late != nil && err.Reason == idle.ReasonPhase {
		close(x.late)
	}
	if err.Reason != idle.ReasonWrite && err.Reason != idle.ReasonMinWriteRate {
		c.LetWrite()
	}
}

// StatusOf returns the status with which to answer a request that has been ended by err, or 0 if it must not be answered.
func StatusOf(err *idle.TimeoutError) int {
	switch {
	case err == nil || err.Limit == 0:
		return 0
	case IsOfReading(err) || err.Reason == idle.ReasonPhase && err.Phase == Header.String():
		return http.StatusRequestTimeout
	case err.Reason == idle.ReasonPhase:
		return http.StatusServiceUnavailable
	}
	return 0
}

// Late returns a channel that's closed when HandlerTimeout of the present request of HTTP/1 passes. Then its server has a
// second to answer. Its goroutine calls Late when the handler begins.
func (c *Conn) Late() <-chan struct{} {
	late := make(chan struct{})
	c.extra.Update(func(x *extra) { x.late = late })
	if err := c.Timeout(); err != nil && err.Reason == idle.ReasonPhase { // perhaps letAnswer has looked before
		late = make(chan struct{})
		close(late)
	}
	return late
}

// writer writes to the application's side of the connection: what TLS encrypts, if there is TLS. It returns nil if TLS is a wrapper's.
func (c *Conn) writer() io.Writer {
	switch x := c.extra.Load(); {
	case x == nil || !x.carriesTLS:
		return &c.Conn
	case x.secure != nil:
		return x.secure
	}
	return nil
}
