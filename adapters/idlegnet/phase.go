package idlegnet

import (
	"errors"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/idle"
)

var errNotBooted = errors.New("idlegnet: Phase before OnBoot; call it in the handler's OnBoot, or later (and pass what Wrap returns to gnet.Run)")

// Phase makes p ready for [Handler.Enter]. A Policy that sets no limit is
// allowed: it makes a phase in which a connection is exempt. Phase may be
// called by any goroutine, from the user's OnBoot on, and its result serves
// until OnShutdown.
func (h *Handler) Phase(p idle.Policy) (*idle.Phase, error) {
	if h.err != nil {
		return nil, h.err
	}
	r := h.run.Load()
	if r == nil {
		return nil, errNotBooted
	}
	if err := h.opts.allow(p); err != nil {
		return nil, err
	}
	return r.tracker.Phase(p)
}

// Enter puts c under another phase: all its limits but the age begin to count
// anew. It must be called on c's loop, that is in a callback; see AsyncEnter.
// It does nothing if c is closed or UDP, and panics if p is not of this handler.
func (h *Handler) Enter(c gnet.Conn, p *idle.Phase) {
	s := h.table.get(c)
	if s == nil {
		return
	}
	s.track.Enter(p)
	s.phase = p
	if s.backlog != nil {
		s.beginBacklog(s.backlog.left)
	}
}

// Beat records a beat of the peer, for policies with a passive Heartbeat. It
// must be called on c's loop.
func (h *Handler) Beat(c gnet.Conn) {
	if s := h.table.get(c); s != nil {
		s.track.Beat()
	}
}

// Sent records that n bytes have gone out on c. It must be called on c's loop,
// for example in the callback of an AsyncWrite. It is needed only where the
// kernel does not count, on Unix sockets and on systems other than Linux, and
// there only for what AsyncWrite writes to peers that send nothing.
func (h *Handler) Sent(c gnet.Conn, n int) {
	if s := h.table.get(c); s != nil {
		s.track.Sent(n)
	}
}

// AsyncEnter has [Handler.Enter] called on c's loop. It may be called by any
// goroutine, and fails when the engine is shutting down.
func (h *Handler) AsyncEnter(c gnet.Conn, p *idle.Phase) error {
	return h.async(c, func() { h.Enter(c, p) })
}

// AsyncBeat has [Handler.Beat] called on c's loop. It may be called by any
// goroutine, and fails when the engine is shutting down.
func (h *Handler) AsyncBeat(c gnet.Conn) error {
	return h.async(c, func() { h.Beat(c) })
}

func (h *Handler) async(c gnet.Conn, f func()) error {
	r := h.run.Load()
	if r == nil {
		return errNotBooted
	}
	return r.execute(c.EventLoop(), f)
}
