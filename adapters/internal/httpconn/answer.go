package httpconn

import (
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// keep asks the user whether the connection is to live on.
func (c *Conn) keep(err *idle.TimeoutError) bool {
	c.explain(err)
	return c.listener.timeouts.OnTimeout(c, err)
}

// part counts the timeout that has ended the connection, and answers the request
// if it can be answered.
func (c *Conn) part(err *idle.TimeoutError) {
	c.explain(err)
	c.listener.counts.add(err, 1)
	if status := c.status(err); status != 0 {
		c.answer(status)
	} else if err.Phase == KeepAlive.String() {
		c.sayGoAway()
	}
	if c.state.Load()&^marks == hijacked {
		c.listener.release(c) // if it is forgotten, nobody but the tracker closes it
	}
}

// explain tells in err what the user knows it by: the phase in which it came up, and
// the setting. A response may be written in any phase of HTTP/1, as the connection
// would read in.
func (c *Conn) explain(err *idle.TimeoutError) {
	ofWriting := err.Reason == idle.ReasonWrite || err.Reason == idle.ReasonMinWriteRate
	if ofWriting && c.state.Load()&^marks < http2 {
		err.Phase = Request.String()
	}
	if setting, ok := c.listener.known[name{err.Phase, err.Reason}]; ok {
		err.Setting = setting
	}
}

// status returns the status by which err can be answered, 0 if it cannot: there
// is no request, or its answer has begun, or it is unknown whether it has.
func (c *Conn) status(err *idle.TimeoutError) int {
	state := c.state.Load()
	switch {
	case err.Phase == Header.String() && err.Reason == idle.ReasonReadTotal && state == waiting:
		return http.StatusRequestTimeout
	case err.Phase != Request.String():
		return 0
	case err.Reason == idle.ReasonPhase && (state == reading || state == working):
		return http.StatusServiceUnavailable
	case err.Reason != idle.ReasonPhase && state == reading:
		return http.StatusRequestTimeout
	}
	return 0
}

// answer answers the request, which is the last one.
func (c *Conn) answer(status int) {
	w := net.Conn(&c.Conn)
	if x := c.extra.Load(); x != nil {
		if x.secure == nil {
			return
		}
		w = x.secure
	}
	const patience = time.Second
	c.Conn.SetWriteDeadline(time.Now().Add(patience))
	text := http.StatusText(status)
	io.WriteString(w, "HTTP/1.1 "+strconv.Itoa(status)+" "+text+"\r\n"+
		"Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\nContent-Length: "+strconv.Itoa(len(text))+"\r\n\r\n"+text)
}
