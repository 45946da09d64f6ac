package httpconn

import (
	"errors"
	"fmt"
	"net"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/idle"
)

// Hijack records that the connection has been handed over. If hijacked
// connections have no limits, the connection is no longer tracked. Then nothing
// refers to it, so the garbage collector closes it if its new owner forgets it,
// as behind the bare servers.
func (c *Conn) Hijack() {
	for from := range uint32(hijacked) {
		if c.transition(from, hijacked) {
			c.ReadAhead(false)
			c.listener.drain.untell(c)
			if p := c.listener.phases[Hijacked]; p.Policy().SetsLimit() {
				c.Conn.Enter(p)
			} else {
				c.letGo()
			}
			return
		}
	}
}

// WillHijack records that the server will hand the connection over when it has sent the response.
// It then calls SetDeadline.
func (c *Conn) WillHijack() { c.state.Or(handsOver) }

// letGo ends the tracking of a connection that stays open.
func (c *Conn) letGo() {
	c.listener.drain.remember(c) // before: a Drain may finish as soon as c isn't tracked
	c.Untrack()
}

// track tracks c again, as if it had just been accepted. l.watching must be held.
func (l *Listener) track(c *Conn) error {
	if err := c.Retrack(l.tracker, c); err != nil {
		return err
	}
	l.drain.tracked(c)
	return nil
}

// Watch applies the policy p to a hijacked connection, which calls the functions of on. nc is
// the connection or a wrapper. If p sets no limit, the connection is no longer tracked. pkg is
// the adapter, whose listener has to have accepted the connection.
func Watch(pkg string, nc net.Conn, p idle.Policy, on httplimits.Callbacks) error {
	c := Unwrap(nc)
	switch {
	case c == nil || c.listener.pkg != pkg || c.state.Load()&^flags != hijacked:
		return fmt.Errorf("%s: Watch of a %T: %w", pkg, nc, ErrForeign)
	case p.Heartbeat.Interval > 0 && !p.Heartbeat.Passive && on.Ping == nil:
		return fmt.Errorf("%s: Watch: the policy has an active Heartbeat (every %v), but Callbacks.Ping is nil; pass a function that pings, or use the Passive form", pkg, p.Heartbeat.Interval)
	}
	l := c.listener
	if p.Name == "" {
		p.Name = Hijacked.String()
	}
	l.watching.Lock() // of two calls at once only one could track the connection again
	defer l.watching.Unlock()
	err := c.watchable()
	switch {
	case err != nil:
	case p.SetsLimit():
		err = l.watch(c, p, on)
	default:
		c.letGo()
	}
	if err != nil {
		return fmt.Errorf("%s: Watch: %w", pkg, err)
	}
	return nil
}

// watchable returns an error if c is closed or has timed out.
func (c *Conn) watchable() error {
	if c.state.Load()&closed != 0 {
		return fmt.Errorf("the connection is closed: %w", net.ErrClosed)
	}
	if timeout := c.Timeout(); timeout != nil {
		return timeout
	}
	return nil
}

// watch tracks c, which must be hijacked, under p, which sets a limit. If p is invalid it changes
// nothing. l.watching must be held.
func (l *Listener) watch(c *Conn, p idle.Policy, on httplimits.Callbacks) error {
	phase, err := l.tracker.Phase(p)
	if err == nil {
		err = l.track(c)
	}
	switch {
	case errors.Is(err, idle.ErrClosed):
		return errEnded
	case err != nil:
		return err
	}
	c.extra.Store(&extra{on: on}) // the new owner writes its own protocol, so timeouts are not answered any more
	c.Conn.Enter(phase)
	return nil
}

// errEnded is returned for a connection that should be tracked after the trackers have ended.
var errEnded = fmt.Errorf("the listener is closed and its last connection with limits has ended, so its timeouts have ended too; "+
	"call Watch before the server ends: %w", net.ErrClosed)

// ErrForeign is returned by Watch for a connection that no listener of this
// library has accepted, or that is not hijacked.
var ErrForeign = errors.New("the connection does not come from a listener of this package, or was not hijacked")
