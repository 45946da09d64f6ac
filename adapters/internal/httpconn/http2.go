package httpconn

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"

	"github.com/idlewheel/idlewheel/adapters/internal/http2conn"
	"github.com/idlewheel/idlewheel/adapters/internal/kernel"
	"github.com/idlewheel/idlewheel/idle"
)

// streams tracks the streams of those HTTP/2 connections whose frames are read.
// They have their own tracker, so that they are not counted as connections.
type streams struct {
	hooks *idle.Hooks

	mu      sync.Mutex
	tracker *idle.Tracker // nil until the first stream is tracked
	closed  bool
}

var (
	errNoLimits = errors.New("httpconn: streams have no limits")
	errClosed   = errors.New("httpconn: the listener is closed and its last connection is gone")
)

// trackStream starts tracking a stream.
func (l *Listener) trackStream(c *idle.Conn, owner any) error {
	policy := l.phases[stream].Policy()
	if !setsLimit(policy) {
		return errNoLimits
	}
	t, err := l.streams.open(policy, l.timeouts.Idle)
	if err != nil {
		return err
	}
	return t.Track(c, owner, l.streams.hooks)
}

// open returns the tracker. It makes it at the first call.
func (s *streams) open(p idle.Policy, opts idle.Options) (t *idle.Tracker, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, errClosed
	case s.tracker == nil:
		opts.OnPass = nil // OnPass must not run concurrently, and the connections' tracker calls it
		s.tracker, err = idle.New(p, &opts)
	}
	return s.tracker, err
}

// close ends the tracking of streams.
func (s *streams) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.tracker != nil {
		go s.tracker.Close() // Tracker.Close waits for callbacks
	}
}

// ReadFrames starts to read the frames of a connection of l that begins to speak
// HTTP/2. nc is the connection that its server has, and the client's preface has
// been read from it. ReadFrames returns the connection to serve instead, or nil
// if the frames are not to be read. When the server is done with the result,
// [http2conn.Conn.End] must be called.
func ReadFrames(l *Listener, nc net.Conn) net.Conn {
	c := Find(l, nc)
	if c == nil || !c.transition(awaitingHeader, http2) {
		return nil
	}
	host := framesHost{c}
	if tc, ok := nc.(*tls.Conn); ok {
		framed := http2conn.NewSecure(tc, host)
		c.extra.Store(&extra{secure: tc, frames: framed.Conn})
		return framed
	}
	framed := http2conn.New(nc, host)
	c.extra.Store(&extra{frames: framed})
	return framed
}

// sendGoAway tells an HTTP/2 client that its connection is ending.
func (c *Conn) sendGoAway() {
	if x := c.extra.Load(); x != nil && x.frames != nil {
		x.frames.GoAway()
	}
}

// framesHost is the http2conn.Host of a connection.
type framesHost struct{ c *Conn }

// Enter implements http2conn.Host.
func (h framesHost) Enter(s http2conn.State) {
	h.c.Conn.Enter(h.c.listener.phases[[...]Phase{
		http2conn.KeepAlive:    noStream,
		http2conn.Streams:      Streams,
		http2conn.Header:       Header,
		http2conn.ResetPending: resetPending,
	}[s]])
}

// Track implements http2conn.Host.
func (h framesHost) Track(c *idle.Conn, stream any) error { return h.c.listener.trackStream(c, stream) }

// Unread implements http2conn.Host.
func (h framesHost) Unread() (unread bool) {
	if raw, err := h.c.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) { unread = kernel.Inspect(fd).Unread })
	}
	return unread
}

// Reset implements http2conn.Host.
func (h framesHost) Reset(err *idle.TimeoutError, streams int) {
	h.c.explain(err)
	h.c.listener.counts.add(err, streams)
}

// OnTimeout implements http2conn.Host.
func (h framesHost) OnTimeout(err *idle.TimeoutError) bool { return h.c.onTimeout(err) }
