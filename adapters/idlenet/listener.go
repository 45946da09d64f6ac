// Package idlenet gives every connection of a net.Listener its timeouts: idle,
// read, write, age, heartbeat and least speed, as an [idle.Policy] says.
//
//	tracker, err := idle.New(idle.Policy{IdleTimeout: time.Minute}, nil)
//	...
//	ln = idlenet.NewListener(ln, tracker, nil)
//
// The server's code stays as it is. When a connection passes a limit, its
// pending and later reads and writes fail at once with an error that says so (a
// copy that waits for its other side fails when that has moved):
//
//	var timeout *idle.TimeoutError
//	if errors.As(err, &timeout) { ... timeout.Reason ... }
//
// and if nobody has closed it [idle.Options].Linger later, it is closed.
//
// What moves a connection's deadlines is seen in its Read, Write, ReadFrom and
// WriteTo. ReadTimeout and MinReadRate count while a Read waits, so a server
// that is busy with a request, and does not read meanwhile, does not hold that
// against the client; to limit silence whatever the server does, use
// IdleTimeout. (Package net/http reads in the background while a handler runs:
// use idlehttp.) A Read that the server's own deadline ends, and that is tried
// again, goes on as the same wait; but under a policy with ReadTotal or MinReadRate
// it is a wait of its own, to ReadTimeout as well. WriteTimeout and MinWriteRate
// count while a Write waits.
//
// Before a connection is timed out the kernel is asked (on Linux, TCP_INFO) whether
// bytes have moved unseen: unread input after a stall of the process, or a slow
// client that still drains a large write. On Unix sockets it tells how much is
// queued, which is compared with what was when the write began to wait, or when it
// was last asked: a client that takes nothing is timed out in time, and one that has
// taken something since may be given the limit once more. Elsewhere than on Linux
// only unread input is asked for.
//
// To use TLS, wrap below it: tls.NewListener(idlenet.NewListener(...), config).
//
// To shut down, close the listener, then the tracker. What [idle.Tracker.Close]
// hands back are the *Conns, open still, but without timeouts from then on.
//
// A tracker refers to its connections, so one that is forgotten without a Close
// stays open until it times out; see [Conn.Untrack] for one that is to have no
// timeouts any more.
package idlenet

import (
	"errors"
	"fmt"
	"net"

	"github.com/idlewheel/idlewheel/adapters/internal/kernel"
	"github.com/idlewheel/idlewheel/idle"
)

// Options are the callbacks of a server that wants to have a say. All may be
// nil. Those that are set run on goroutines of their own and may block.
type Options struct {
	// Ping writes a heartbeat message to the connection. It is called as the
	// policy's active Heartbeat says, which requires it. While it blocks, or
	// after it failed, the peer's misses count on.
	Ping func(c *Conn) error

	// OnTimeout is asked before a connection is timed out. If it returns true,
	// the connection is kept, and the limit begins anew. It may write a
	// farewell, which does not count as an activity; but no timeout ends that
	// write, so it wants a deadline.
	OnTimeout func(c *Conn, err *idle.TimeoutError) (keep bool)

	// OnEnd is told when a connection has timed out, before its reads and writes
	// fail. It may write a last message, which wants a deadline, as no timeout
	// ends it any more; and it may change err, which is what they fail with.
	OnEnd func(c *Conn, err *idle.TimeoutError)

	// OnDrain is told when a connection has passed MaxAge, so that it can be
	// finished in good order within MaxAgeGrace; not if that is zero.
	OnDrain func(c *Conn)
}

var errNoTracker = errors.New("idlenet: the tracker is nil; did idle.New return an error?")

// ErrWrapped is returned when a *Conn, or what embeds one, is wrapped again.
var ErrWrapped = errors.New("idlenet: the connection is a *idlenet.Conn already; wrap it, or its listener, once")

// Listener is a net.Listener whose connections are [Conn]s.
type Listener struct {
	net.Listener
	tracker *idle.Tracker
	opts    Options
}

// NewListener returns a listener that accepts from ln and has t time the
// connections out. opts may be nil. Closing the listener closes ln, but neither
// the tracker nor the connections. It panics if ln or t is nil, if ln is a
// [*Listener] already, or if the policy of t asks for pings and opts has none.
func NewListener(ln net.Listener, t *idle.Tracker, opts *Options) *Listener {
	if ln == nil {
		panic("idlenet: NewListener without a listener; did net.Listen return an error?")
	}
	if t == nil {
		panic("idlenet: NewListener without a tracker; did idle.New return an error?")
	}
	if _, twice := ln.(*Listener); twice {
		panic("idlenet: the listener is a *idlenet.Listener already; wrap it once")
	}
	l := &Listener{Listener: ln, tracker: t}
	if opts != nil {
		l.opts = *opts
	}
	if err := l.opts.allow(t.Policy()); err != nil {
		panic(err.Error())
	}
	return l
}

// Accept waits for the next connection and returns it as a [*Conn]. When the
// tracker is closed, or cannot track the connection for another reason, it
// closes the connection and fails with the tracker's error.
func (l *Listener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &new(aligned).Conn
	if err := c.Init(nc, l.tracker, &l.opts); err != nil {
		nc.Close()
		return nil, err
	}
	return c, nil
}

// Wrap returns nc with the timeouts of t, for connections that do not come from
// a listener. nc must not be used by itself any more. Do not wrap it twice either:
// that is not detected, as it would take a map of all connections. opts may be nil.
// Wrap fails if nc or t is nil, with [ErrWrapped] if nc is a *Conn, with
// idle.ErrClosed if t is closed, and if the policy asks for pings but opts has none;
// nc is left as it was then.
func Wrap(nc net.Conn, t *idle.Tracker, opts *Options) (*Conn, error) {
	var own Options
	if opts != nil {
		own = *opts
	}
	c := &new(aligned).Conn
	if err := c.Init(nc, t, &own); err != nil {
		return nil, err
	}
	return c, nil
}

// Init is [Wrap] for a Conn that is part of a type of the user's, which can then
// have methods of its own in place of some of these. c must be zero. It refers
// to opts, which must not be nil.
func (c *Conn) Init(nc net.Conn, t *idle.Tracker, opts *Options) error {
	if _, twice := nc.(interface{ self() *Conn }); twice {
		return ErrWrapped
	}
	switch {
	case nc == nil:
		return errors.New("idlenet: the connection to wrap is nil; did what should have made it return an error?")
	case t == nil:
		return errNoTracker
	case opts == nil:
		return errors.New("idlenet: Init refers to its options; pass &idlenet.Options{} for none")
	}
	if err := opts.allow(t.Policy()); err != nil {
		return err
	}
	c.inner, c.opts = kernel.Stream(nc), opts
	if socket, ok := nc.(*net.UnixConn); ok {
		c.inner = kernel.Queue(socket, c.waits)
	}
	c.user.Store(readDeadline | writeDeadline) // for all that is known
	if !kernel.SeesOutput || socketUnder(nc) == nil {
		c.marks.Or(small)
	}
	if err := t.Track(&c.track, c.owner()); err != nil {
		return err
	}
	c.track.PauseRead() // until the first Read
	c.prepare(t.Policy())
	return nil
}

// self tells a Conn, and what embeds one, from other connections.
func (c *Conn) self() *Conn { return c }

// allow reports what p needs that the options do not have.
func (o *Options) allow(p idle.Policy) error {
	if h := p.Heartbeat; h.Interval > 0 && !h.Passive && o.Ping == nil {
		return fmt.Errorf("idlenet: the policy has an active Heartbeat (every %v), but Options.Ping is nil; set it, or use the Passive form", h.Interval)
	}
	return nil
}
