package idlegnet

import (
	"errors"
	"net"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/idle"
)

var errNotBooted = errors.New("idlegnet: Phase was called before OnBoot; call it in the handler's OnBoot, or later (and pass what Wrap returns to gnet.Run)")

// Phase makes a phase with the policy p for [Conn.Enter]. If p sets no limit,
// connections in the phase have none. Phase may be called from any goroutine, but
// not before the user's OnBoot. The result is valid until OnShutdown.
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

// Conn controls the timeouts of a connection. Through it, the user reports what only the user
// knows, such as beats. The user may keep it. Its methods do nothing if it's nil or if the
// connection is closed. Call them on the connection's loop, which means in a callback. End, Gnet and
// the Async methods may be called from any goroutine.
type Conn conn

// Conn returns the Conn of c, or nil if c is closed or UDP. Call it on c's loop,
// from OnOpen on. The lookup costs some nanoseconds, so code that handles many
// messages in one callback should look it up once.
func (h *Handler) Conn(c gnet.Conn) *Conn { return (*Conn)(h.table.get(c)) }

// Enter puts the connection in phase p. All limits except MaxAge start over. Enter panics if p is
// nil or of another handler, or if p pings and Options.Ping is nil.
func (c *Conn) Enter(p *idle.Phase) {
	mustBePhase("Enter", p)
	s := (*conn)(c)
	if s == nil || s.closed() {
		return
	}
	s.track.Enter(p)
	if p != s.rare.phase {
		s.own().phase = p
	}
	if b := s.rare.backlog; b != nil {
		s.startBacklog(b.held)
	}
}

// Use records that the connection is used, such as by a message of a user. It is for policies with ExplicitUse;
// without that, every byte counts as use.
func (c *Conn) Use() {
	if c != nil {
		c.track.Use()
	}
}

// Beat records a beat of the peer. It is for policies with a passive Heartbeat,
// and costs about a nanosecond.
func (c *Conn) Beat() {
	if c != nil {
		c.track.Beat()
	}
}

// End ends the connection for a cause that the caller names, which [idle.TimeoutError] contains;
// see [idle.Conn.End]. It may be called from any goroutine.
func (c *Conn) End(cause string) {
	if c != nil {
		c.track.End(cause)
	}
}

// Idle returns how long ago the connection was last used; see [idle.Conn.Idle]. The result may be
// up to two ticks too short. It is 0 after the connection was closed.
func (c *Conn) Idle() time.Duration {
	if c == nil || (*conn)(c).closed() {
		return 0
	}
	return c.track.Idle()
}

// Age returns how long the connection has been open; see [idle.Conn.Age]. It is 0 after the connection was closed.
func (c *Conn) Age() time.Duration {
	if c == nil || (*conn)(c).closed() {
		return 0
	}
	return c.track.Age()
}

// Gnet returns gnet's connection, for example for its Context. Gnet may be called from any
// goroutine; gnet's documentation says which of the connection's methods may. It returns nil if c
// is nil.
func (c *Conn) Gnet() gnet.Conn {
	if c == nil {
		return nil
	}
	return c.c
}

// RemoteAddr returns the peer's address, or nil if c is nil. It's the default of idle.Options.Label.
func (c *Conn) RemoteAddr() net.Addr {
	if c == nil {
		return nil
	}
	return c.c.RemoteAddr()
}

// Sent records that n bytes have been sent, for example in the callback of an AsyncWrite. It's
// needed only where the kernel doesn't report what was sent: on Unix sockets, and on systems
// other than Linux. There it's needed only for peers that send nothing, and only for writes with
// AsyncWrite, after a Wake or in OnDrain. With Options.MaxUnsent, Sent also checks how many bytes
// gnet holds back.
func (c *Conn) Sent(n int) {
	if c == nil {
		return
	}
	c.track.Sent(n)
	if s := (*conn)(c); s.loop.run.most > 0 {
		s.afterCallback()
	}
}

// AsyncEnter runs [Conn.Enter] on the connection's loop. It may be called from
// any goroutine. It fails if the engine is shutting down, and panics if p is nil.
func (c *Conn) AsyncEnter(p *idle.Phase) error {
	mustBePhase("AsyncEnter", p)
	return c.async(func() { c.Enter(p) })
}

// mustBePhase panics if p is nil, so that AsyncEnter panics in its caller.
func mustBePhase(method string, p *idle.Phase) {
	if p == nil {
		panic("idlegnet: " + method + "(nil); did Phase return an error?")
	}
}

// AsyncUse runs [Conn.Use] on the connection's loop. It may be called from any
// goroutine, and fails if the engine is shutting down.
func (c *Conn) AsyncUse() error { return c.async(c.Use) }

// AsyncBeat runs [Conn.Beat] on the connection's loop. It may be called from any
// goroutine, and fails if the engine is shutting down.
func (c *Conn) AsyncBeat() error { return c.async(c.Beat) }

// async runs f on the connection's loop. It does nothing if c is nil.
func (c *Conn) async(f func()) error {
	if c == nil {
		return nil
	}
	return c.loop.run.execute(c.loop.el, f)
}
