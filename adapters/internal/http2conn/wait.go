package http2conn

import (
	"slices"

	"github.com/idlewheel/idlewheel/idle"
)

// The tracker of streams tracks waits: for the client on one stream, or for the window of the
// connection.
type wait struct {
	idle.Conn
	conn          *Conn
	reads, writes bool // the tracker knows that a read, or a write, is waiting
}

// Hooks returns the hooks for a tracker of streams. If asks is set, they call
// OnTimeout of the [Host] before a stream is reset.
func Hooks(asks bool) *idle.Hooks {
	h := &idle.Hooks{
		Probe: func(owner any, _ idle.Reason) idle.SocketState {
			return idle.SocketState{Unread: owner.(*wait).conn.host.Unread()}
		},
		Expire: func(owner any, err *idle.TimeoutError) { owner.(*wait).expire(err) },
	}
	if asks {
		h.OnTimeout = func(owner any, err *idle.TimeoutError) bool { return owner.(*wait).conn.host.OnTimeout(err) }
	}
	return h
}

// settle updates the waits and the Host's state from the ledger. c.mu must be held.
func (c *Conn) settle() {
	if c.ended {
		return
	}
	always := c.opened && c.host.LimitsStreams()
	if c.opened {
		c.opened = false
		c.host.Opened()
	}
	if c.changed || always {
		c.changed = false
		for i := range c.streams {
			s := &c.streams[i]
			if s.wait == nil && (always || c.owes(s) || c.stalls(s)) {
				c.track(s)
			}
			if s.wait != nil {
				s.wait.set(c.owes(s), c.stalls(s))
			}
		}
	}
	if c.window == nil && c.stallsAll() {
		if c.window = c.newWait(true); c.window != nil {
			c.window.Sent(int(c.sent))
		}
	}
	if c.window != nil {
		c.window.set(false, c.stallsAll())
	}
	for i, w := range c.closedWaits {
		w.close()
		c.closedWaits[i] = nil
	}
	c.closedWaits = c.closedWaits[:0]
	if s, since := c.currentState(); s != c.state || since != c.since {
		c.enter(s, since)
	}
}

// enter reports a new state to the Host. c.mu must be held.
func (c *Conn) enter(s State, since uint32) {
	c.state, c.since = s, since
	c.host.Enter(s)
}

// currentState returns the state that the connection is in, and the number of the header block or
// request with which that began. Between two calls there may have been states that it hasn't
// seen.
func (c *Conn) currentState() (s State, since uint32) {
	switch {
	case c.clientBlock.open:
		return Header, c.blocks
	case slices.ContainsFunc(c.resets, c.isOpen):
		return ResetPending, 0
	case len(c.streams) > 0 || c.flushing:
		return Streams, 0
	}
	return KeepAlive, c.lastClient
}

// track creates the wait of a stream, and reports the bytes that have moved so far.
func (c *Conn) track(s *stream) {
	if s.wait = c.newWait(false); s.wait == nil {
		return
	}
	if s.phase != nil {
		s.wait.Enter(s.phase)
	}
	s.wait.Received(int(s.received))
	s.wait.Sent(int(s.sent))
}

// newWait creates a wait, of one stream or of all. It returns nil if the server has ended.
func (c *Conn) newWait(all bool) *wait {
	w := &wait{conn: c, reads: true} // tracking begins with a wait for a read
	if c.host.Track(&w.Conn, w, all) != nil {
		return nil
	}
	return w
}

// Limit puts the stream with the given id under the limits of p, which count from now
// on. It reports whether the stream is open.
func (c *Conn) Limit(id uint32, p *idle.Phase) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.streams.find(id)
	if s == nil || s.is(resetting) || c.ended {
		return false
	}
	s.phase, s.received, s.sent = p, 0, 0
	if s.wait == nil {
		c.track(s)
	} else {
		s.wait.Enter(p)
	}
	if s.wait != nil {
		s.wait.set(c.owes(s), c.stalls(s))
	}
	return true
}

// set starts and stops waiting as asked.
func (w *wait) set(reads, writes bool) {
	switch {
	case reads && !w.reads:
		w.AwaitRead()
	case !reads && w.reads:
		w.PauseRead()
	}
	switch {
	case writes && !w.writes:
		w.AwaitWrite()
	case !writes && w.writes:
		w.PauseWrite()
	}
	w.reads, w.writes = reads, writes
}

// close ends the tracking of w. It does nothing if w is nil.
func (w *wait) close() {
	if w != nil {
		w.Conn.Stop()
	}
}

// expire makes the server reset the stream of w, or all streams that the connection's window
// stalls.
func (w *wait) expire(err *idle.TimeoutError) {
	c := w.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.markResets(w); n > 0 {
		c.changed = true
		c.wake()
		c.host.Reset(err, n)
	}
}

// markResets marks the streams of w for a reset, and returns how many they are.
func (c *Conn) markResets(w *wait) (n int) {
	for i := range c.streams {
		s := &c.streams[i]
		about := s.wait == w
		if w == c.window {
			about = s.is(responded) && !s.is(serverEnded)
		}
		if about && !s.is(resetting) {
			s.flags |= resetting
			c.resets = append(c.resets, s.id)
			n++
		}
	}
	if w == c.window {
		c.window = nil
	}
	return n
}
