package idlegnet

import (
	"errors"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/idle"
)

var errNotBooted = errors.New("idlegnet: Phase before OnBoot; call it in the handler's OnBoot, or later (and pass what Wrap returns to gnet.Run)")

// Phase makes p ready for [Conn.Enter]. A Policy that sets no limit is
// allowed: it makes a phase in which a connection is exempt. Phase may be
// called by any goroutine, from the user's OnBoot on, and its result serves
// until OnShutdown.
func (h *Handler) Phase(p idle.Policy) (*idle.Phase, error) {
	r := h.run.Load()
	if r == nil {
		return nil, errNotBooted
	}
	if err := h.hooks.Check(p); err != nil {
		return nil, err
	}
	return r.tracker.Phase(p)
}

// Conn is the timeouts of a connection, by which its user tells what only the
// user knows. It may be kept, beside what else is known of the connection. Its
// methods do nothing if it is nil, or if the connection is closed; but for the
// Async ones they must be called on the connection's loop, that is in a callback.
type Conn conn

// Conn returns the timeouts of c, nil if c is closed or UDP. It must be called on
// c's loop, from OnOpen on. Looking it up costs some nanoseconds; who takes many
// messages at once does it once for all of them.
func (h *Handler) Conn(c gnet.Conn) *Conn { return (*Conn)(h.table.get(c)) }

// Enter puts the connection under another phase: all its limits but the age
// begin to count anew. It panics if p is nil, is not of the connection's handler, or
// pings and Options.Ping is nil.
func (c *Conn) Enter(p *idle.Phase) {
	mustBePhase("Enter", p)
	s := (*conn)(c)
	if s == nil || s.closed() {
		return
	}
	s.track.Enter(p)
	s.phase = p
	if s.backlog != nil {
		s.beginBacklog(s.backlog.left)
	}
}

// Beat records a beat of the peer, for policies with a passive Heartbeat. It
// costs about a nanosecond.
func (c *Conn) Beat() {
	if c != nil {
		c.track.Beat()
	}
}

// Sent records that n bytes have gone out, for example in the callback of an
// AsyncWrite. It is needed only where the kernel does not tell, on Unix sockets and
// on systems other than Linux, and there only for what is written to peers that send
// nothing: by AsyncWrite, upon a Wake, in OnDrain, or by a Ping that returns nil.
func (c *Conn) Sent(n int) {
	if c != nil {
		c.track.Sent(n)
	}
}

// AsyncEnter has [Conn.Enter] called on the connection's loop. It may be called
// by any goroutine, and fails when the engine is shutting down. It panics if p is nil.
func (c *Conn) AsyncEnter(p *idle.Phase) error {
	mustBePhase("AsyncEnter", p)
	return c.async(func() { c.Enter(p) })
}

// mustBePhase panics where the mistake is made.
func mustBePhase(method string, p *idle.Phase) {
	if p == nil {
		panic("idlegnet: " + method + "(nil); did Phase return an error?")
	}
}

// AsyncBeat has [Conn.Beat] called on the connection's loop. It may be called by
// any goroutine, and fails when the engine is shutting down.
func (c *Conn) AsyncBeat() error { return c.async(c.Beat) }

func (c *Conn) async(f func()) error {
	if c == nil {
		return nil
	}
	return c.loop.run.execute(c.loop.el, f)
}
