package httpconn

import (
	"errors"
	"fmt"
	"net"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/idle"
)

// Watch applies the policy p to a hijacked connection, which calls the functions of on. nc is
// the connection or a wrapper. pkg is the adapter, whose listener has to have accepted the connection.
func Watch(pkg string, nc net.Conn, p idle.Policy, on httplimits.Callbacks) error {
	c := Unwrap(nc)
	switch {
	case c == nil || c.listener.pkg != pkg || c.state.Load()&^flags != hijacked:
		return fmt.Errorf("%s: Watch of a %T: %w", pkg, nc, ErrForeign)
	case p.Heartbeat.Interval > 0 && !p.Heartbeat.Passive && on.Ping == nil:
		return fmt.Errorf("%s: Watch: the policy has an active Heartbeat (every %v), but Callbacks.Ping is nil; pass a function that pings, or use the Passive form", pkg, p.Heartbeat.Interval)
	}
	if p.Name == "" {
		p.Name = Hijacked.String()
	}
	phase, err := c.listener.tracker.Phase(p)
	switch timeout := c.Timeout(); {
	case err != nil:
		err = named("", err)
	case c.state.Load()&closed != 0:
		err = fmt.Errorf("the connection is closed: %w", net.ErrClosed)
	case timeout != nil:
		err = timeout
	}
	if err != nil {
		return fmt.Errorf("%s: Watch: %w", pkg, err)
	}
	c.extra.Update(func(x *extra) { x.on = on })
	c.Conn.Enter(phase)
	return nil
}

// ErrForeign is returned by Watch for a connection that no listener of this
// library has accepted, or that is not hijacked.
var ErrForeign = errors.New("the connection does not come from a listener of this package, or was not hijacked")
