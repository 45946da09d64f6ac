package httpconn

import (
	"crypto/tls"
	"net"

	"github.com/idlewheel/idlewheel/adapters/internal/http2conn"
	"github.com/idlewheel/idlewheel/idle"
)

// streams tracks the streams of those HTTP/2 connections whose frames are read.
// They have their own tracker, so that they are not counted as connections.
type streams struct {
	hooks   *idle.Hooks
	tracker *idle.Tracker // nil without HTTP/2
	phase   *idle.Phase   // of a stream; nil like tracker
	window  *idle.Phase   // of all streams of a connection, while its window is used up
}

// init makes the tracker of streams under a policy. The options are those of the
// connections' tracker.
func (s *streams) init(opts idle.Options, p idle.Policy) (err error) {
	opts.OnEnds = nil // it is for connections
	if s.tracker, err = newTracker(opts); err != nil {
		return err
	}
	if s.phase, err = s.tracker.Phase(p); err == nil {
		s.window, err = s.tracker.Phase(ofWindow(p))
	}
	if err != nil {
		s.tracker.Close()
	}
	return err
}

// trackStream starts tracking a stream, or all of a connection together. It does so even
// if streams have no limits, because SetTimeouts may give them some.
func (l *Listener) trackStream(c *idle.Conn, owner any, all bool) error {
	s := &l.streams
	if err := s.tracker.Track(c, owner, s.hooks); err != nil {
		return err
	}
	if all {
		c.Enter(s.window)
	} else {
		c.Enter(s.phase)
	}
	return nil
}

// StreamTracker returns the tracker of the streams of HTTP/2, or nil if l has no HTTP/2.
func StreamTracker(l *Listener) *idle.Tracker { return l.streams.tracker }

// ofWindow returns the policy of all streams together that wait for the connection's window,
// given the policy of one stream. StreamTotal is about each stream, from its own beginning.
func ofWindow(p idle.Policy) idle.Policy {
	p.PhaseTimeout = 0
	return p
}

// replace replaces the policy of streams.
func (s *streams) replace(p idle.Policy) error {
	if s.tracker == nil {
		return nil
	}
	if err := s.phase.SetPolicy(p); err != nil {
		return err
	}
	return s.window.SetPolicy(ofWindow(p))
}

// ReadFrames starts to read the frames of a connection of l that begins to speak HTTP/2. nc is
// the connection that its server has, and the client's preface has been read from it. ReadFrames
// returns the connection to serve instead, or nil if the frames can't be read. When the server is
// done with the result, [http2conn.Conn.End] must be called.
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

// sendGoAway announces to an HTTP/2 client that its connection is ending.
func (c *Conn) sendGoAway() {
	if x := c.extra.Load(); x != nil && x.frames != nil {
		x.frames.GoAway()
	}
}

// framesHost is the http2conn.Host of a connection.
type framesHost struct{ c *Conn }

// Enter implements http2conn.Host. Without a stream, all frames keep the connection alive or set
// it up: PING, SETTINGS, and the answers to them. The header of a request counts as use because
// the connection enters another state with it.
func (h framesHost) Enter(s http2conn.State) {
	h.c.Conn.Enter(h.c.listener.phases[[...]Phase{
		http2conn.KeepAlive:    noRequest,
		http2conn.Streams:      Streams,
		http2conn.Header:       Header,
		http2conn.ResetPending: resetPending,
	}[s]])
}

// Opened implements http2conn.Host. A lame duck asks the client to go.
func (h framesHost) Opened() { h.c.announce() }

// Track implements http2conn.Host.
func (h framesHost) Track(c *idle.Conn, owner any, all bool) error {
	return h.c.listener.trackStream(c, owner, all)
}

// LimitsStreams implements http2conn.Host.
func (h framesHost) LimitsStreams() bool {
	return h.c.listener.streams.phase.Policy().PhaseTimeout > 0
}

// Unread implements http2conn.Host.
func (h framesHost) Unread() bool { return h.c.Inspect().Unread > 0 }

// Reset implements http2conn.Host.
func (h framesHost) Reset(err *idle.TimeoutError, streams int) {
	h.c.explain(err)
	h.c.listener.counts.add(err, streams)
}

// OnTimeout implements http2conn.Host.
func (h framesHost) OnTimeout(err *idle.TimeoutError) bool { return h.c.onTimeout(err) }
