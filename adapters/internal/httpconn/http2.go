package httpconn

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"

	"github.com/idlewheel/idlewheel/adapters/internal/http2conn"
	"github.com/idlewheel/idlewheel/adapters/internal/kernel"
	"github.com/idlewheel/idlewheel/idle"
	"github.com/idlewheel/idlewheel/idle/pressure"
)

// streams tracks the streams of those HTTP/2 connections whose frames are read.
// They have their own tracker, so that they are not counted as connections.
type streams struct {
	hooks *idle.Hooks

	mu      sync.Mutex
	tracker *idle.Tracker // nil until the first stream is tracked
	phase   *idle.Phase   // of a stream; nil like tracker
	window  *idle.Phase   // of all streams of a connection, while its window is used up
	closed  bool

	follower *pressure.Follower // of the listener's connections; nil if there has been none
	full     idle.Policy        // at full pressure
}

var errClosed = errors.New("httpconn: the listener is closed and its last connection is gone")

// trackStream starts tracking a stream, or all of a connection together. It does so even
// if streams have no limits, because SetTimeouts may give them some.
func (l *Listener) trackStream(c *idle.Conn, owner any, all bool) error {
	s := &l.streams
	t, err := s.open(l)
	if err != nil {
		return err
	}
	if err := t.Track(c, owner, s.hooks); err != nil {
		return err
	}
	if all {
		c.Enter(s.window)
	} else {
		c.Enter(s.phase)
	}
	return nil
}

// open returns the tracker of l's streams. It makes it, and their phases, at the first
// call.
func (s *streams) open(l *Listener) (*idle.Tracker, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, errClosed
	case s.tracker != nil:
		return s.tracker, nil
	}
	opts := l.options
	opts.OnPass = nil // it is for the passes over connections
	t, err := newTracker(opts)
	if err != nil {
		return nil, err
	}
	policy := l.phases[stream].Policy()
	phase, err := t.Phase(policy)
	if err != nil {
		t.Close()
		return nil, err
	}
	window, err := t.Phase(ofWindow(policy))
	if err != nil {
		t.Close()
		return nil, err
	}
	s.tracker, s.phase, s.window = t, phase, window
	if err := s.press(); err != nil {
		t.Close()
		s.tracker, s.phase, s.window = nil, nil, nil
		return nil, err
	}
	return t, nil
}

// ofWindow returns the policy of all streams that wait for a window together, given that of
// a stream. StreamTotal is about each stream, from its own beginning.
func ofWindow(p idle.Policy) idle.Policy {
	p.PhaseTimeout = 0
	return p
}

// follow has streams follow the pressure that f does, now and when they have a tracker.
func (s *streams) follow(f *pressure.Follower, full idle.Policy) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.follower, s.full = f, full
	return s.press()
}

// press adds the phase of streams to those that follow a pressure. s.mu must be held.
func (s *streams) press() error {
	if s.closed || s.tracker == nil || s.follower == nil || !setsLimit(s.full) {
		return nil
	}
	if err := s.follower.Add(s.tracker, s.phase, s.full); err != nil {
		return err
	}
	ofAll := ofWindow(s.full)
	if !setsLimit(ofAll) {
		return nil
	}
	return s.follower.Add(s.tracker, s.window, ofAll)
}

// follows reports whether there is a Follower that has not stopped.
func (s *streams) follows() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.follower == nil {
		return false
	}
	select {
	case <-s.follower.Done():
		return false
	default:
		return true
	}
}

// replace replaces the policy of streams, if there have been any. The policy that
// [streams.open] gives the first is replaced before.
func (s *streams) replace(p idle.Policy) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.tracker == nil || s.phase.Policy() == p {
		return nil
	}
	if err := s.tracker.Replace(s.phase, p); err != nil {
		return err
	}
	return s.tracker.Replace(s.window, ofWindow(p))
}

// replaceOwn replaces the policy of streams that have limits of their own.
func (s *streams) replaceOwn(phase *idle.Phase, p idle.Policy) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || phase.Policy() == p {
		return nil
	}
	return s.tracker.Replace(phase, p)
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
	defer c.firstRequest()
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
func (h framesHost) Track(c *idle.Conn, owner any, all bool) error {
	return h.c.listener.trackStream(c, owner, all)
}

// LimitsStreams implements http2conn.Host.
func (h framesHost) LimitsStreams() bool { return h.c.listener.now.Load().timeouts.StreamTotal > 0 }

// Unread implements http2conn.Host.
func (h framesHost) Unread() bool { return kernel.InspectConn(h.c.NetConn()).Unread }

// Reset implements http2conn.Host.
func (h framesHost) Reset(err *idle.TimeoutError, streams int) {
	h.c.explain(err)
	h.c.listener.counts.add(err, streams)
}

// OnTimeout implements http2conn.Host.
func (h framesHost) OnTimeout(err *idle.TimeoutError) bool { return h.c.onTimeout(err) }
