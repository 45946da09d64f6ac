package netconn

import (
	"errors"
	"net"

	"github.com/idlewheel/idlewheel/adapters/internal/kernel"
	"github.com/idlewheel/idlewheel/idle"
)

// ErrWrapped is returned by [Conn.Init] for a connection that is or embeds a Conn.
var ErrWrapped = errors.New("idlenet: the connection is a *idlenet.Conn already; wrap it, or its listener, once")

// ErrNoTracker is returned for a nil tracker.
var ErrNoTracker = errors.New("idlenet: the tracker is nil; did idle.New return an error?")

// Init gives nc the timeouts of t. c must be zero. From then on use c and not nc. t and the
// callbacks of s get owner: c, or a value that embeds c or a [Hidden] one. Init retains s, which
// many connections can share.
//
// Init fails, and leaves nc alone, if nc or t is nil, nc has timeouts already (ErrWrapped), t
// is closed (idle.ErrClosed) or full (idle.ErrFull), or its policy has an active Heartbeat
// and s has no Ping.
func (c *Conn) Init(nc net.Conn, t *idle.Tracker, owner any, s *Setup) error {
	if _, twice := nc.(isConn); twice {
		return ErrWrapped
	}
	switch {
	case nc == nil:
		return errors.New("idlenet: the connection to wrap is nil; did the call that makes it return an error?")
	case t == nil:
		return ErrNoTracker
	}
	c.setup = s
	if counted, ok := nc.(interface{ CountedSocket() net.Conn }); ok { // of package admit
		c.extra.Store(&extra{counted: nc})
		nc = counted.CountedSocket()
	}
	notifying := false
	switch socket := nc.(type) {
	case *net.UnixConn:
		c.inner, notifying = kernel.Queue(socket, (*writer)(c))
	case kernel.Simulated:
		c.inner, notifying = nc, socket.Notify((*writer)(c))
	default:
		c.inner, notifying = kernel.Stream(nc, (*writer)(c))
	}
	switch {
	case notifying:
		c.flags.Store(notifies | counts)
	case kernel.SeesOutput && kernel.SocketUnder(nc) != nil:
		c.flags.Store(counts | sampled) // and all bytes count
	}
	c.userDeadlines.Store(readDeadline | writeDeadline) // not known, so assume both
	if !isSocket(nc) {
		c.extra.Store(&extra{address: &address{known: make(chan struct{})}})
	}
	if err := t.Track(&c.track, owner, &s.Hooks); err != nil {
		return err
	}
	c.track.PauseRead() // no Read is waiting yet
	return nil
}
