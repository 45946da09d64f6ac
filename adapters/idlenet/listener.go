package idlenet

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"reflect"

	"github.com/idlewheel/idlewheel/adapters/internal/kernel"
	"github.com/idlewheel/idlewheel/idle"
)

// Options are what few servers need: callbacks, and settings of the tracker. Nil
// Options, and every zero field, stand for none, or the default. The callbacks run on
// goroutines of their own and may block.
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

	// Idle has the tick and other settings of the tracker that [Wrap] makes.
	Idle idle.Options

	// Tracker has [Wrap] use a tracker that there is already, which several
	// listeners can share, instead of making one. Closing the listener does not
	// close it then. The listener's connections are under the policy that Wrap is
	// given, as a phase of this tracker; if that is the zero Policy, they are under
	// the tracker's own. Idle must be zero.
	Tracker *idle.Tracker
}

var errNoTracker = errors.New("idlenet: the tracker is nil; did idle.New return an error?")

// ErrWrapped is returned when a *Conn, or what embeds one, is wrapped again.
var ErrWrapped = errors.New("idlenet: the connection is a *idlenet.Conn already; wrap it, or its listener, once")

// Listener is a net.Listener whose connections are [Conn]s.
type Listener struct {
	net.Listener
	tracker *idle.Tracker
	phase   *idle.Phase // that connections enter; nil for the tracker's own policy
	setup   *Setup
}

// Wrap returns a listener that accepts from ln, with connections under the policy p.
// opts may be nil. The listener has a tracker, with a goroutine, until it is closed and
// its last connection has ended; or it uses Options.Tracker.
//
// Wrap fails if ln is nil or a [*Listener] already, if p asks for pings and opts has no
// Ping, if p sets no limit and there is no Options.Tracker, and if a value in p or opts
// makes no sense. Then ln is left as it was.
func Wrap(ln net.Listener, p idle.Policy, opts *Options) (*Listener, error) {
	if ln == nil {
		return nil, errors.New("idlenet: the listener to wrap is nil; did net.Listen return an error?")
	}
	if _, twice := ln.(*Listener); twice {
		return nil, errors.New("idlenet: the listener is a *idlenet.Listener already; wrap it once")
	}
	l := &Listener{Listener: ln, setup: NewSetup(opts)}
	err := l.setup.hooks.Check(p)
	switch {
	case err != nil:
	case l.setup.opts.Tracker != nil:
		err = l.share(p)
	default:
		l.tracker, err = idle.New(p, &l.setup.opts.Idle)
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// share has l use Options.Tracker.
func (l *Listener) share(p idle.Policy) (err error) {
	l.tracker = l.setup.opts.Tracker
	if p != (idle.Policy{}) {
		l.phase, err = l.tracker.Phase(p)
	}
	return cmp.Or(l.setup.hooks.Check(l.tracker.Policy()), l.setup.opts.leavesIdle(), err)
}

// Tracker returns what tracks the connections: it has their counts, makes phases, and
// can end all timeouts at once. It is Options.Tracker if that was set.
func (l *Listener) Tracker() *idle.Tracker { return l.tracker }

// Accept waits for the next connection and returns it as a [*Conn]. When the
// tracker is closed it closes the connection, and fails with an error that is both
// net.ErrClosed and idle.ErrClosed.
func (l *Listener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := new(Conn)
	if err := c.Init(nc, l.tracker, l.setup); err != nil {
		nc.Close()
		if errors.Is(err, idle.ErrClosed) {
			err = fmt.Errorf("idlenet: Accept: %w: %w", net.ErrClosed, err)
		}
		return nil, err
	}
	if l.phase != nil {
		c.Enter(l.phase)
	}
	return c, nil
}

// Close closes the listener that l wraps, but no connection: they keep their timeouts.
// The listener's tracker closes when the last of them has ended, or was untracked (see
// [idle.Tracker.Retire]). A tracker that was given as Options.Tracker stays open.
func (l *Listener) Close() error {
	err := l.Listener.Close()
	if l.setup.opts.Tracker == nil {
		l.tracker.Retire()
	}
	return err
}

// WrapConn returns nc with the timeouts of t, for connections that do not come from
// a listener. nc must not be used by itself any more. Do not wrap it twice either:
// that is not detected, as it would take a map of all connections. opts may be nil.
// WrapConn fails if nc or t is nil, with [ErrWrapped] if nc is a *Conn, with
// idle.ErrClosed if t is closed, if the policy of t asks for pings but opts has none,
// and if opts has settings of a listener's tracker, Idle or Tracker; nc is left as it
// was then.
func WrapConn(nc net.Conn, t *idle.Tracker, opts *Options) (*Conn, error) {
	s := NewSetup(opts)
	if s.opts.Tracker != nil {
		return nil, errors.New("idlenet: Options.Tracker is set, but is for Wrap; WrapConn is given a tracker")
	}
	if err := s.opts.leavesIdle(); err != nil {
		return nil, err
	}
	c := new(Conn)
	if err := c.Init(nc, t, s); err != nil {
		return nil, err
	}
	return c, nil
}

// Init is [WrapConn] for a Conn that is part of a type of the user's, which can then
// have methods of its own in place of some of these. c must be zero. It refers to s,
// which many connections can share; a nil one is that of no options. The Idle and Tracker
// of its options do not matter.
func (c *Conn) Init(nc net.Conn, t *idle.Tracker, s *Setup) error {
	if _, twice := nc.(isConn); twice {
		return ErrWrapped
	}
	switch {
	case nc == nil:
		return errors.New("idlenet: the connection to wrap is nil; did what should have made it return an error?")
	case t == nil:
		return errNoTracker
	case s == nil:
		s = NewSetup(nil)
	}
	c.setup = s
	var telling bool
	if socket, ok := nc.(*net.UnixConn); ok {
		c.inner, telling = kernel.Queue(socket, (*writer)(c))
	} else {
		c.inner, telling = kernel.Stream(nc, (*writer)(c))
	}
	c.mark(tells, telling)
	c.user.Store(readDeadline | writeDeadline) // for all that is known
	if !kernel.SeesOutput || socketUnder(nc) == nil {
		c.marks.Or(small)
	}
	if err := t.Track(&c.track, c, &s.hooks); err != nil {
		return err
	}
	c.track.PauseRead() // until the first Read
	c.prepare(t.Policy())
	return nil
}

// leavesIdle reports that Idle is set, though there is a tracker. (It cannot be
// compared, as it has a function.)
func (o *Options) leavesIdle() error {
	if reflect.ValueOf(&o.Idle).Elem().IsZero() {
		return nil
	}
	return fmt.Errorf("idlenet: Options.Idle is %+v, but the tracker has its settings already; pass them to the idle.New that makes it", o.Idle)
}
