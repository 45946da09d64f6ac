package httpconn

import (
	"io"
	"net"
	"net/http"
	"os"
	"strconv"

	"github.com/idlewheel/idlewheel/idle"
)

// onTimeout decides whether to keep the connection, which the user may.
func (c *Conn) onTimeout(err *idle.TimeoutError) bool {
	if err.Phase == KeepAlive.String() && err.Reason == idle.ReasonPhase && c.isReceiving(err.Limit) {
		return true
	}
	c.explain(err)
	return c.ask(err)
}

// ask asks the user whether to keep the connection, or the stream.
func (c *Conn) ask(err *idle.TimeoutError) bool {
	ask := c.listener.now.Load().timeouts.OnTimeout
	return ask != nil && ask(c, err)
}

// onEnd counts the timeout that has ended the connection. It answers the request
// if possible, and then calls the user's OnEnd.
func (c *Conn) onEnd(err *idle.TimeoutError) {
	if end := c.listener.now.Load().timeouts.OnEnd; end != nil {
		defer end(c, err)
	}
	if err.Limit > 0 { // no drain, no eviction, no End
		c.listener.counts.add(err)
		if c.state.Load()&^closed == unserved|foreign {
			c.listener.hidden.Do(c.listener.logHidden)
		}
	}
	if c.state.Load()&^flags == hijacked {
		c.farewell(err)
		return
	}
	if status := c.claim(err); status != 0 {
		c.answer(status)
	} else if c.state.Load()&^flags == http2Idle {
		c.sendGoAway()
	} else if c.holdsBack(err) || c.state.Load()&given != 0 {
		c.LetWrite()
	}
}

// holdsBack reports whether a pipelined request has timed out and the server may hold back the
// responses to the requests before it. An answer of ours would be taken for the first of them. So
// the server sends them, and its own answer after them.
func (c *Conn) holdsBack(err *idle.TimeoutError) bool {
	state := c.state.Load()
	return state&pipelined != 0 && statusOf(state&^pipelined, err) != 0
}

// farewell calls the OnEnd of a watched connection. No limit of the policy applies to its writes.
func (c *Conn) farewell(err *idle.TimeoutError) {
	if x := c.extra.Load(); x != nil && x.on.OnEnd != nil {
		x.on.OnEnd(err)
	}
}

// explain sets err.Phase to the phase as users know it. In HTTP/1 a response may be written while
// any phase is entered, so a timeout of writing is always one of the phase "request".
func (c *Conn) explain(err *idle.TimeoutError) {
	ofWriting := err.Reason == idle.ReasonWrite || err.Reason == idle.ReasonMinWriteRate
	if ofWriting && c.state.Load()&^flags < http2 {
		err.Phase = Request.String()
	}
}

// claim decides who answers the request that has timed out: its handler, or the timeout with the
// status that claim returns. It returns 0 if the timeout may not answer. One swap decides between
// the two:
//
//	claim:         from a state without responded to one with answered
//	beginResponse: from a state without answered to one with responded
//
// With TLS, the answer passes through Write like the handler's response, and looks the same.
// There the first write after claim succeeds, and all later ones fail. If the first one is the
// handler's, the client gets the beginning of its response, as if it had begun before. Interim
// responses pass until the answer is about to be written.
func (c *Conn) claim(err *idle.TimeoutError) (status int) {
	x := c.extra.Load()
	if x != nil && x.secure == nil { // a wrapper carries TLS, and cannot be written to
		return 0
	}
	next := &extra{timeout: err}
	mark := uint32(answered)
	if x != nil {
		next.secure = x.secure
		mark |= answering
	} else {
		next.written = make(chan struct{})
	}
	for {
		was := c.state.Load()
		if status = statusOf(was, err); status == 0 {
			return 0
		}
		c.extra.CompareAndSwap(x, next)
		if c.state.CompareAndSwap(was, was|mark) {
			return status
		}
	}
}

// statusOf returns the status with which to answer a request that has timed out in the
// given state. It returns 0 if there is no request, if the response has begun, if the server may
// hold back earlier responses, or if no limit has ended the connection: a 408 would invite the
// client to repeat a request that its handler may have.
func statusOf(state uint32, err *idle.TimeoutError) int {
	state &^= limited | interim
	switch {
	case err.Phase == Header.String() && err.Reason == idle.ReasonPhase && state == awaitingHeader:
		return http.StatusRequestTimeout
	case err.Phase != Request.String():
		return 0
	case err.Reason == idle.ReasonPhase && (state == readingBody || state == handling):
		return http.StatusServiceUnavailable
	case (err.Reason == idle.ReasonRead || err.Reason == idle.ReasonMinReadRate) && state == readingBody:
		return http.StatusRequestTimeout
	}
	return 0
}

// answeredError returns the error of a response's Write when the timeout answers. It waits for
// the answer, because the server may close the connection next.
func (c *Conn) answeredError() error {
	err := error(os.ErrDeadlineExceeded)
	if x := c.extra.Load(); x != nil && x.timeout != nil {
		if err = x.timeout; x.written != nil {
			<-x.written
		}
	}
	return &net.OpError{Op: "write", Net: "tcp", Err: err}
}

// answer sends a response and asks the client to close the connection. The response has no body,
// because the request may be a HEAD.
func (c *Conn) answer(status int) {
	x := c.extra.Load()
	if x.written != nil {
		defer close(x.written)
	}
	c.Interim(false)
	io.WriteString(c.writer(), "HTTP/1.1 "+strconv.Itoa(status)+" "+http.StatusText(status)+"\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
}

// writer writes to the application's side of the connection: what TLS encrypts, if there is TLS.
func (c *Conn) writer() io.Writer {
	if x := c.extra.Load(); x.secure != nil {
		return x.secure
	}
	return &c.Conn
}
