package http2conn

import (
	"slices"

	"github.com/idlewheel/idlewheel/idle"
)

// A wait is what is waited for on a stream, or for the window of the connection.
type wait struct {
	idle.Conn
	conn          *Conn
	reads, writes bool // whether there are waits
}

// Hooks returns what a tracker of streams is to call. If asks is set, the Host is
// asked before one is reset.
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

// settle sees to it that what is waited for is what the ledger says. c.mu is held.
func (c *Conn) settle() {
	if c.ended {
		return
	}
	if c.changed {
		c.changed = false
		for i := range c.streams {
			s := &c.streams[i]
			if c.await(&s.wait, c.owes(s), c.holds(s)) {
				s.wait.Received(int(s.received))
				s.wait.Sent(int(s.sent))
			}
		}
	}
	if c.await(&c.window, false, c.holdsAll()) {
		c.window.Sent(int(c.sent))
	}
	for i, w := range c.gone {
		w.close()
		c.gone[i] = nil
	}
	c.gone = c.gone[:0]
	s, since := c.present()
	if s == KeepAlive && c.sending { // the last response is not written yet, and the wait not begun
		return
	}
	if s != c.state || since != c.since {
		c.state, c.since = s, since
		c.host.Enter(s)
	}
}

// present returns the state that the connection is in, and which header or request
// it has begun with. There may have been other states that nobody has seen.
func (c *Conn) present() (s State, since uint32) {
	switch {
	case c.block.open:
		return Header, c.blocks
	case slices.ContainsFunc(c.resets, c.isOpen):
		return Unfinished, 0
	case len(c.streams) > 0:
		return Streams, 0
	}
	return KeepAlive, c.lastIn
}

// await has w wait for what it is to wait for. It is made when that is anything,
// which await reports: the bytes so far count as well.
func (c *Conn) await(w **wait, reads, writes bool) (made bool) {
	if *w == nil {
		if !reads && !writes {
			return false
		}
		fresh := &wait{conn: c, reads: true} // as tracking begins
		if c.host.Track(&fresh.Conn, fresh) != nil {
			return false
		}
		*w, made = fresh, true
	}
	(*w).set(reads, writes)
	return made
}

// set begins or ends waits.
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

// close ends the tracking, if there is any.
func (w *wait) close() {
	if w != nil {
		w.Conn.Close()
	}
}

// expire has the server reset the stream, or all that the client holds up.
func (w *wait) expire(err *idle.TimeoutError) {
	c := w.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.condemn(w); n > 0 {
		c.changed = true
		c.wake()
		c.host.Reset(err, n)
	}
}

// condemn marks the streams that w is about, and returns how many.
func (c *Conn) condemn(w *wait) (n int) {
	for i := range c.streams {
		s := &c.streams[i]
		about := s.wait == w
		if w == c.window {
			about = s.is(responded) && !s.is(serverEnded)
		}
		if about && !s.is(resetting) {
			s.marks |= resetting
			c.resets = append(c.resets, s.id)
			n++
		}
	}
	if w == c.window {
		c.window = nil
	}
	return n
}
