package httpconn

import (
	"cmp"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"github.com/idlewheel/idlewheel/adapters/internal/http2conn"
	"github.com/idlewheel/idlewheel/adapters/internal/kernel"
	"github.com/idlewheel/idlewheel/idle"
)

// RequestStream is what a stream of HTTP/2 is called in errors and counters.
const RequestStream = "request stream"

// http2Limits are the limits of HTTP/2 connections whose frames are read. Streams
// have a tracker of their own, so that the counts of connections are not theirs.
type http2Limits struct {
	keepAlive, unfinished *idle.Phase

	stream idle.Policy
	opts   idle.Options

	mu      sync.Mutex
	tracker *idle.Tracker // nil until the first stream is tracked
	closed  bool

	reset atomic.Uint64 // how many streams have been
}

// prepare makes the phases of connections, for their tracker.
//
// KeepAliveTimeout is of the whole wait: frames that arrive while no stream is open
// do not extend it.
func (h *http2Limits) prepare(t *idle.Tracker, l *Limits) (err error) {
	keepAlive := idle.Policy{Name: KeepAlive.String(), WriteTimeout: l.Write, MinWriteRate: l.WriteRate}
	unfinished := keepAlive
	keepAlive.ReadTotal = l.KeepAlive
	if h.keepAlive, err = t.Phase(keepAlive); err != nil {
		return err
	}
	// A frame that a reset has to wait for may be a body's, which has its own time.
	unfinished.Name = Streams.String()
	if l.BodyRate.BytesPerSecond > 0 {
		unfinished.ReadTimeout, unfinished.MinReadRate = l.Body, l.BodyRate
	} else {
		unfinished.ReadTotal = cmp.Or(l.Header, l.Body, l.Write, l.WriteRate.Grace)
	}
	if h.unfinished, err = t.Phase(unfinished); err != nil {
		return err
	}
	h.stream = idle.Policy{ReadTimeout: l.Body, MinReadRate: l.BodyRate, WriteTimeout: l.Write, MinWriteRate: l.WriteRate}
	h.opts = l.Idle
	h.opts.OnPass = nil // it is told by one driver at a time, which is that of connections
	return nil
}

var (
	errNoLimits = errors.New("httpconn: streams have no limits")
	errClosed   = errors.New("httpconn: the listener is closed, and its last connection gone")
)

// track begins to track a stream.
func (h *http2Limits) track(c *idle.Conn, o idle.Owner) error {
	t, err := h.streams()
	if err != nil {
		return err
	}
	return t.Track(c, o)
}

// streams returns the tracker of streams.
func (h *http2Limits) streams() (*idle.Tracker, error) {
	if h.stream == (idle.Policy{}) {
		return nil, errNoLimits
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return nil, errClosed
	case h.tracker != nil:
		return h.tracker, nil
	}
	named := h.stream
	named.Name = RequestStream
	t, err := idle.New(named, &h.opts)
	h.tracker = t
	return t, err
}

// close ends the tracking of streams.
func (h *http2Limits) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	if h.tracker != nil {
		go h.tracker.Close() // it waits for callbacks
	}
}

// HTTP2 has the frames of a connection read from here on, which is the listener's
// and begins to speak HTTP/2, as nc. The client's preface has been read. It returns
// what the server is to serve, nil if the frames are not to be read; when the server
// is done with that, [http2conn.Conn.End] has to be called.
func (l *Listener) HTTP2(nc net.Conn) net.Conn {
	c := l.Find(nc)
	if c == nil || !c.become(waiting, http2) {
		return nil
	}
	var host http2conn.Host = framesHost{c}
	if l.limits.OnTimeout != nil {
		host = framesAsker{framesHost{c}}
	}
	if tc, ok := nc.(*tls.Conn); ok {
		framed := http2conn.NewSecure(tc, host)
		c.extra.Store(&extra{secure: tc, frames: framed.Conn})
		return framed
	}
	framed := http2conn.New(nc, host)
	c.extra.Store(&extra{frames: framed})
	return framed
}

// sayGoAway tells a client of HTTP/2 that its connection ends.
func (c *Conn) sayGoAway() {
	if x := c.extra.Load(); x != nil && x.frames != nil {
		x.frames.GoAway()
	}
}

// framesHost is a connection as the reader of its frames knows it.
type framesHost struct{ c *Conn }

// Enter implements http2conn.Host.
func (h framesHost) Enter(s http2conn.State) {
	l := h.c.listener
	h.c.Conn.Enter([...]*idle.Phase{
		http2conn.KeepAlive:  l.http2.keepAlive,
		http2conn.Streams:    l.phases[Streams],
		http2conn.Header:     l.phases[Header],
		http2conn.Unfinished: l.http2.unfinished,
	}[s])
}

// Track implements http2conn.Host.
func (h framesHost) Track(c *idle.Conn, o idle.Owner) error { return h.c.listener.http2.track(c, o) }

// Unread implements http2conn.Host.
func (h framesHost) Unread() (unread bool) {
	if raw, err := h.c.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) { unread = kernel.Inspect(fd).Unread })
	}
	return unread
}

// Reset implements http2conn.Host.
func (h framesHost) Reset(_ *idle.TimeoutError, streams int) {
	h.c.listener.http2.reset.Add(uint64(streams))
}

// framesAsker is one whose user is asked.
type framesAsker struct{ framesHost }

// Keep implements http2conn.Asker.
func (h framesAsker) Keep(err *idle.TimeoutError) bool {
	return h.c.listener.limits.OnTimeout(h.c, err)
}
