package httpconn

import (
	"errors"
	"fmt"
	"net"

	"github.com/idlewheel/idlewheel/idle"
)

// Hijack notes that the connection is handed over. If no limit is set for hijacked
// connections, the tracker lets go of it. The garbage collector can then close it if
// its new owner forgets it, as behind the bare servers.
func (c *Conn) Hijack() {
	for from := range uint32(hijacked) {
		if c.become(from, hijacked) {
			c.ReadAhead(false)
			if p := c.listener.phases[Hijacked]; setsLimit(p.Policy()) {
				c.Conn.Enter(p)
			} else {
				c.letGo()
			}
			return
		}
	}
}

// letGo ends the tracking of a connection that stays open.
func (c *Conn) letGo() {
	c.Untrack()
	c.listener.release(c)
}

// regain tracks a connection again which turned out not to be hijacked, and reports
// whether it could.
func (c *Conn) regain() bool {
	l := c.listener
	l.watching.Lock()
	defer l.watching.Unlock()
	if _, err := l.hold(c); err != nil {
		return false
	}
	return l.track(c, l.tracker) == nil
}

// track puts c under t, and ends its tracking by another tracker. watching is held.
func (l *Listener) track(c *Conn, t *idle.Tracker) error {
	c.Untrack()
	if err := c.Track(t); err != nil {
		return err
	}
	l.again.Add(1)
	return nil
}

// Watch puts a connection of l that was hijacked under the policy p, and has ping
// called as it says. A policy without a limit lets the connection go.
func Watch(l *Listener, nc net.Conn, p idle.Policy, ping func() error) error {
	c := Find(l, nc)
	switch {
	case c == nil || c.state.Load()&^marks != hijacked:
		return fmt.Errorf("%s: Watch of a %T: %w", l.pkg, nc, ErrForeign)
	case p.Heartbeat.Interval > 0 && !p.Heartbeat.Passive && ping == nil:
		return fmt.Errorf("%s: Watch: the policy has an active Heartbeat (every %v), but ping is nil", l.pkg, p.Heartbeat.Interval)
	}
	if p.Name == "" {
		p.Name = Hijacked.String()
	}
	l.watching.Lock() // two policies at once would enter phases of each other's trackers
	defer l.watching.Unlock()
	if !setsLimit(p) {
		c.letGo()
		return nil
	}
	if err := l.watch(c, p, ping); err != nil {
		return fmt.Errorf("%s: Watch: %w", l.pkg, err)
	}
	return nil
}

// watch tracks c, which was hijacked, under p. If p makes no sense all stays as it
// was. watching is held.
func (l *Listener) watch(c *Conn, p idle.Policy, ping func() error) error {
	first, err := l.hold(c)
	if err != nil {
		return err
	}
	tracker, err := l.trackerFor(p)
	var phase *idle.Phase
	if err == nil {
		phase, err = tracker.Phase(p)
	}
	if err != nil {
		if first {
			l.release(c)
		}
		return err
	}
	if err := l.track(c, tracker); err != nil {
		l.release(c)
		return err
	}
	c.extra.Store(&extra{ping: ping}) // it writes what it likes by now, and is not answered
	c.Conn.Enter(phase)
	return nil
}

// setsLimit reports whether p sets any.
func setsLimit(p idle.Policy) bool { return p != idle.Policy{Name: p.Name} }

// errEnded is what it gives to track a connection when the trackers are gone.
var errEnded = fmt.Errorf("the listener is closed, and none of its connections had a limit any more, so its timeouts have ended; "+
	"call Watch before the server ends: %w", net.ErrClosed)

// hold counts c as one for which the trackers have to live, and reports whether it
// was not counted before. It fails if it is closed or the trackers have ended.
func (l *Listener) hold(c *Conn) (first bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch s := c.state.Load(); {
	case s&closed != 0:
		return false, fmt.Errorf("the connection is closed: %w", net.ErrClosed)
	case s&released == 0:
		return false, nil
	case l.open == 0:
		return false, errEnded
	}
	c.state.And(^uint32(released))
	l.open++
	return true, nil
}

// release is the opposite of hold.
func (l *Listener) release(c *Conn) {
	if c.state.Or(released)&released == 0 {
		l.end()
	}
}

// ErrForeign is what it gives to watch a connection that is not a listener's of
// this library.
var ErrForeign = errors.New("the connection does not come from a listener of this package, or was not hijacked")
