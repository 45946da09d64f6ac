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

// streams are those of HTTP/2 connections whose frames are read. They have a tracker of
// their own, so that the counts of connections are not theirs.
type streams struct {
	hooks *idle.Hooks

	mu      sync.Mutex
	tracker *idle.Tracker // nil until the first stream is tracked
	closed  bool
}

var (
	errNoLimits = errors.New("httpconn: streams have no limits")
	errClosed   = errors.New("httpconn: the listener is closed, and its last connection gone")
)

// trackStream begins to track a stream.
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

// open returns the tracker, which it makes if there is none yet.
func (s *streams) open(p idle.Policy, opts idle.Options) (t *idle.Tracker, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, errClosed
	case s.tracker == nil:
		opts.OnPass = nil // it is told by one driver at a time, which is that of connections
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
		go s.tracker.Close() // it waits for callbacks
	}
}

// ReadFrames has the frames of a connection read from here on, which is l's
// and begins to speak HTTP/2, as nc. The client's preface has been read. It returns
// what the server is to serve, nil if the frames are not to be read; when the server
// is done with that, [http2conn.Conn.End] has to be called.
func ReadFrames(l *Listener, nc net.Conn) net.Conn {
	c := Find(l, nc)
	if c == nil || !c.become(waiting, http2) {
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
	h.c.Conn.Enter(h.c.listener.phases[[...]Phase{
		http2conn.KeepAlive:  noStream,
		http2conn.Streams:    Streams,
		http2conn.Header:     Header,
		http2conn.Unfinished: unfinished,
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
func (h framesHost) OnTimeout(err *idle.TimeoutError) bool { return h.c.keep(err) }
