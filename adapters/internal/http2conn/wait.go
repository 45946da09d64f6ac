package http2conn

import (
	"slices"

	"github.com/idlewheel/idlewheel/idle"
)

// A wait is what the tracker of streams tracks: the wait for the client on one
// stream, or for the window of the connection.
type wait struct {
	idle.Conn
	conn          *Conn
	reads, writes bool // the tracker has been told that a read, a write, is waiting
}

// Hooks returns the hooks for a tracker of streams. If asks is set, they call
// OnTimeout of the [Host] before a stream is reset.
func Hooks(asks bool) *idle.Hooks {
	h := &idle.Hooks{
		Examine: func(owner any, _ idle.Reason) idle.Evidence {
			return idle.Evidence{Unread: owner.(*wait).conn.host.Unread()}
		},
		Expire: func(owner any, err *idle.TimeoutError) { owner.(*wait).expire(err) },
	}
	if asks {
		h.OnTimeout = func(owner any, err *idle.TimeoutError) bool { return owner.(*wait).conn.host.OnTimeout(err) }
	}
	return h
}

// settle brings the waits and the Host's state up to date with the ledger. c.mu
// must be held.
func (c *Conn) settle() {
	if c.ended {
		return
	}
	if c.changed {
		c.changed = false
		for i := range c.streams {
			s := &c.streams[i]
			if c.setWait(&s.wait, c.owes(s), c.stalls(s)) {
				s.wait.Received(int(s.received))
				s.wait.Sent(int(s.sent))
			}
		}
	}
	if c.setWait(&c.window, false, c.stallsAll()) {
		c.window.Sent(int(c.sent))
	}
	for i, w := range c.closedWaits {
		w.close()
		c.closedWaits[i] = nil
	}
	c.closedWaits = c.closedWaits[:0]
	s, since := c.currentState()
	if s == KeepAlive && c.flushing { // the last response is not written yet, so the wait for a request has not begun
		return
	}
	if s != c.state || since != c.since {
		c.state, c.since = s, since
		c.host.Enter(s)
	}
}

// currentState returns the state that the connection is in, and the number of the
// header block or request with which that began. There may have been other states
// since the last call that nobody saw.
func (c *Conn) currentState() (s State, since uint32) {
	switch {
	case c.clientBlock.open:
		return Header, c.blocks
	case slices.ContainsFunc(c.resets, c.isOpen):
		return ResetPending, 0
	case len(c.streams) > 0:
		return Streams, 0
	}
	return KeepAlive, c.lastClient
}

// setWait makes *w wait for a read, a write, both or neither. It creates the wait
// when there is first something to wait for, and reports whether it has. The
// caller then reports the bytes that have moved so far.
func (c *Conn) setWait(w **wait, reads, writes bool) (made bool) {
	if *w == nil {
		if !reads && !writes {
			return false
		}
		fresh := &wait{conn: c, reads: true} // tracking begins with a wait for a read
		if c.host.Track(&fresh.Conn, fresh) != nil {
			return false
		}
		*w, made = fresh, true
	}
	(*w).set(reads, writes)
	return made
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
		w.Conn.Close()
	}
}

// expire makes the server reset the stream that w is about, or all streams that
// the connection's window stalls.
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

// markResets marks the streams that w is about as to be reset, and returns how
// many they are.
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
