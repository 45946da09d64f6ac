package idlenet

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"reflect"

	"github.com/idlewheel/idlewheel/adapters/internal/descriptors"
	"github.com/idlewheel/idlewheel/adapters/internal/netconn"
	"github.com/idlewheel/idlewheel/idle"
)

// Options has callbacks, and settings of the tracker. Each field may be zero, which means no
// callback or the default. Nil Options mean all defaults. The callbacks run on goroutines of
// their own and may block.
type Options struct {
	// Ping writes a heartbeat message to the connection. An active Heartbeat in
	// the policy requires it, and says when it is called. While Ping blocks and
	// after it has failed, misses are still counted. What it writes counts as use, as does the
	// answer, unless the policy has ExplicitUse.
	Ping func(c *Conn) error

	// OnTimeout is called before a connection is timed out. If it returns true, the connection is
	// kept, and the limit starts over. It isn't called for MaxAge, a Drain, End or an eviction.
	// OnTimeout may write a farewell, which doesn't count as activity. No timeout ends that
	// write, so set a write deadline first.
	OnTimeout func(c *Conn, err *idle.TimeoutError) (keep bool)

	// OnEnd is called when a connection has timed out, or was ended by a Drain, End or an eviction. The connection is
	// closed when OnEnd has returned, but at most a second after it began. It may change err, which is the error that
	// reads and writes fail with, and write a last message within that second. After WriteTimeout or MinWriteRate,
	// writes fail at once.
	OnEnd func(c *Conn, err *idle.TimeoutError)

	// OnDrain asks the peer to finish. It is called when a connection has its turn
	// in a Drain, even if the connection is busy. It is also called when
	// one has passed MaxAge, unless MaxAgeGrace is zero.
	OnDrain func(c *Conn)

	// Idle has the tick and other settings for the tracker that [Wrap] makes.
	Idle idle.Options

	// Tracker, if not nil, is the tracker that [Wrap] uses instead of making one.
	// Several listeners may share it, and closing a listener does not close it.
	// The policy given to Wrap becomes a phase of the tracker, which the
	// listener's connections enter. If that policy is zero, they have the
	// tracker's own. Idle must be zero.
	Tracker *idle.Tracker
}

// ErrWrapped is returned when a *Conn, or a value that embeds one, is wrapped
// again.
var ErrWrapped = netconn.ErrWrapped

// Listener is a net.Listener whose connections have the type [*Conn].
type Listener struct {
	net.Listener
	tracker *idle.Tracker
	phase   *idle.Phase // that connections enter; nil for the tracker's own policy
	setup   *setup
}

// Wrap returns a listener that accepts from ln and applies the policy p to its
// connections. opts may be nil. The listener's tracker has a goroutine, which
// ends after the listener is closed and its last connection has ended. With
// Options.Tracker, Wrap uses that tracker instead.
//
// Wrap fails, and leaves ln alone, if
//
//   - ln is nil;
//   - ln is or embeds a listener that has timeouts already, such as a [*Listener];
//   - ln is or embeds a listener of crypto/tls, because TLS has to be above timeouts;
//   - p has an active Heartbeat and opts has no Ping;
//   - p sets no limit and there is no Options.Tracker;
//   - a value in p or opts is invalid.
func Wrap(ln net.Listener, p idle.Policy, opts *Options) (*Listener, error) {
	if ln == nil {
		return nil, errors.New("idlenet: the listener to wrap is nil; did net.Listen return an error?")
	}
	for inner := ln; inner != nil; inner = netconn.Embedded(inner) {
		if _, twice := inner.(interface{ Tracker() *idle.Tracker }); twice {
			return nil, fmt.Errorf("idlenet: the listener is or contains a %T, which has timeouts already; wrap it once", inner)
		}
		if isTLS(inner) {
			return nil, errors.New("idlenet: the listener is or contains one of crypto/tls, so timeouts would not see the socket and its bytes; wrap the listener below it, and put TLS on top: tls.NewListener(l, config)")
		}
	}
	l := &Listener{Listener: ln, setup: newSetup(opts)}
	err := l.setup.Hooks.Check(p)
	switch {
	case err != nil:
	case l.setup.opts.Tracker != nil:
		err = l.useTracker(p)
	default:
		l.tracker, err = idle.New(p, &l.setup.opts.Idle)
	}
	if err == nil {
		err = l.tracker.Expect(&l.setup.Hooks)
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// isTLS reports whether v is a listener or a connection of crypto/tls. It doesn't import that, which
// programs without TLS would then contain.
func isTLS(v any) bool {
	t := reflect.TypeOf(v)
	return t.Kind() == reflect.Pointer && t.Elem().PkgPath() == "crypto/tls"
}

// useTracker makes l use Options.Tracker.
func (l *Listener) useTracker(p idle.Policy) (err error) {
	l.tracker = l.setup.opts.Tracker
	if p != (idle.Policy{}) {
		l.phase, err = l.tracker.Phase(p)
	}
	return cmp.Or(l.setup.opts.checkIdle(), err)
}

// Tracker returns the tracker of l's connections: Options.Tracker, or the one that [Wrap] has made. It has Drain,
// Visit, SetCapacity and more. The tracker doesn't refer to l. So store the tracker, not the method value l.Tracker,
// which keeps l from being collected.
func (l *Listener) Tracker() *idle.Tracker { return l.tracker }

// Stats returns the counts of the tracker.
func (l *Listener) Stats() idle.Stats { return l.tracker.Stats() }

// Phase makes a phase with the policy p for [Conn.Enter]; see [idle.Tracker.Phase]. It fails
// if p has an active Heartbeat and there is no Options.Ping.
func (l *Listener) Phase(p idle.Policy) (*idle.Phase, error) {
	if err := l.setup.Hooks.Check(p); err != nil {
		return nil, err
	}
	return l.tracker.Phase(p)
}

// Accept waits for the next connection and returns it as a [*Conn]. If the
// tracker is closed, Accept closes the connection and fails with an error that is
// both net.ErrClosed and idle.ErrClosed.
//
// If the tracker has an [idle.Capacity], connections for which there is no room are
// closed, and Accept goes on waiting. If it has one, and the process runs out of
// descriptors, connections are evicted to make room, and Accept goes on too. Without a Capacity,
// Accept fails with the error of the system.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		nc, err := descriptors.Accept(l.Listener, l.tracker)
		if err != nil {
			return nil, err
		}
		c := new(Conn)
		switch err := c.conn().Init(nc, l.tracker, c, &l.setup.Setup); {
		case err == nil:
			if l.phase != nil {
				c.Enter(l.phase)
			}
			return c, nil
		case errors.Is(err, idle.ErrFull):
			nc.Close()
		case errors.Is(err, idle.ErrClosed):
			nc.Close()
			return nil, fmt.Errorf("idlenet: Accept: %w: %w", net.ErrClosed, err)
		default:
			nc.Close()
			return nil, err
		}
	}
}

// Close closes the listener but none of its connections, which keep their timeouts. The listener's tracker closes
// when the last of them has ended; see [idle.Tracker.CloseWhenEmpty]. A tracker from Options.Tracker stays open.
func (l *Listener) Close() error {
	err := l.Listener.Close()
	if l.setup.opts.Tracker == nil {
		l.tracker.CloseWhenEmpty()
	}
	return err
}

// WrapConn returns nc with the timeouts of t. It is for connections that do not come from a
// listener. Afterwards use only the result, not nc. [Unwrap] returns its [*Conn]. Don't wrap nc
// twice: that is noticed only if nc is or embeds a Conn. opts may be nil.
//
// The result is a syscall.Conn if nc is one, because pools of clients use that to find out
// whether the server has closed a connection. Raw reads and writes don't count as activity.
// (Connections from Accept aren't syscall.Conns. Use NetConn there.)
//
// WrapConn fails, and leaves nc alone, if
//
//   - nc or t is nil;
//   - nc is or embeds a Conn already ([ErrWrapped]);
//   - nc is or embeds a *tls.Conn, because TLS has to be above timeouts;
//   - t is closed (idle.ErrClosed);
//   - the policy of t has an active Heartbeat and opts has no Ping;
//   - opts.Idle or opts.Tracker is set, because these are for [Wrap].
func WrapConn(nc net.Conn, t *idle.Tracker, opts *Options) (net.Conn, error) {
	c, err := wrapConn(nc, t, opts)
	if err != nil {
		return nil, err
	}
	if _, err := c.conn().RawConn(); err == nil {
		return socketConn{c}, nil
	}
	return c, nil
}

func wrapConn(nc net.Conn, t *idle.Tracker, opts *Options) (*Conn, error) {
	s := newSetup(opts)
	if s.opts.Tracker != nil {
		return nil, errors.New("idlenet: Options.Tracker is set, but WrapConn takes the tracker as an argument; leave it nil")
	}
	if err := s.opts.checkIdle(); err != nil {
		return nil, err
	}
	for inner := nc; inner != nil; inner = netconn.Embedded(inner) {
		if _, twice := inner.(isConn); twice {
			return nil, ErrWrapped
		}
		if isTLS(inner) {
			return nil, errors.New("idlenet: the connection is or contains one of crypto/tls, so timeouts would not see the socket and its bytes; wrap the connection below it, and put TLS on top: tls.Client(c, config)")
		}
	}
	c := new(Conn)
	if err := c.conn().Init(nc, t, c, &s.Setup); err != nil {
		return nil, err
	}
	return c, nil
}

// checkIdle returns an error if o.Idle is set. It uses reflection because
// idle.Options contains a function and cannot be compared.
func (o *Options) checkIdle() error {
	if reflect.ValueOf(&o.Idle).Elem().IsZero() {
		return nil
	}
	return fmt.Errorf("idlenet: Options.Idle is %+v, but the tracker has its settings already; pass them to the idle.New that makes it", o.Idle)
}
