package httpconn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// drain is the state of a listener's Drain, Shutdown or LameDuck.
type drain struct {
	lame atomic.Int32 // if above 0, each response asks its client to leave; see LameDuck

	// Once Shutdown has closed the socket, Accept fails only when mayFail has been called. A
	// server would otherwise end with an error before it is shut down.
	stopping atomic.Bool
	shutting atomic.Bool     // a Shutdown is under way
	stopped  context.Context // done when mayFail has been called
	mayFail  context.CancelFunc
}

// onDrain asks the client to finish. The response to its next request says so, and in HTTP/2 a GOAWAY
// does, which net/http sends in place of the response's header. The owner of a hijacked connection is asked by its callback.
// A connection is not ended while onDrain runs.
func (c *Conn) onDrain() {
	c.told.Store(true)
	switch state := c.state.Load(); {
	case state&^flags == hijacked:
		if x := c.extra.Load(); x != nil && x.on.OnDrain != nil {
			x.on.OnDrain()
		}
	case c.requests.Load() == 0:
		c.awaitRequest()
	}
}

// awaitRequest waits for the first request of a new connection, which has its time for that. It and countRequest, or Close, see each
// other:
//
//	awaitRequest: stores the channel, then loads requests and state
//	countRequest: counts the request, then loads the channel
func (c *Conn) awaitRequest() {
	begun := make(chan struct{}, 1)
	c.extra.Update(func(x *extra) { x.begun = begun })
	if c.requests.Load() > 0 || c.state.Load()&closed != 0 {
		return
	}
	select {
	case <-begun:
	case <-time.After(cmp.Or(c.listener.now.Load().timeouts.HandshakeTimeout, defaultHandshake)):
	}
}

// wake ends awaitRequest.
func (c *Conn) wake() {
	if x := c.extra.Load(); x != nil && x.begun != nil {
		select {
		case x.begun <- struct{}{}:
		default:
		}
	}
}

// countRequest records that a request of c has arrived.
func (c *Conn) countRequest() {
	if c.requests.Add(1) == 1 {
		c.wake()
	}
}

// IsDraining reports whether all clients should leave: from LameDuck or Shutdown on, and during a
// Drain of the tracker.
func (l *Listener) IsDraining() bool {
	return l.drain.lame.Load() > 0 || l.drain.stopping.Load() || l.tracker.Draining() != nil
}

// IsTold reports whether c has been asked to finish, so that its next response should ask the
// client to close the connection.
func (c *Conn) IsTold() bool { return c.told.Load() || c.listener.drain.lame.Load() > 0 }

// An Outer is a Listener of an adapter, which embeds one of this package under a name that is not exported.
type Outer interface {
	comparable
	self() *Listener
}

func (l *Listener) self() *Listener { return l }

// innerOf returns the listeners inside an adapter's listeners. what is the name of the function
// that they were passed to.
func innerOf[L Outer](pkg, what string, listeners []L) (all []*Listener, err error) {
	var none L
	for _, l := range listeners {
		if l == none {
			return nil, fmt.Errorf("%s: %s: a listener is nil; did Wrap return an error?", pkg, what)
		}
		all = append(all, l.self())
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: %s of no listener; pass those that Wrap has returned", pkg, what)
	}
	return all, nil
}

// SetServer records which server l belongs to, and how to shut that down. begun, if not nil, reports whether the
// server has begun to serve l, and an error if it must not. SetServer is called before l is served.
func SetServer(l *Listener, server any, shut func(context.Context) error, begun func() (bool, error)) {
	l.server, l.shut, l.begun = server, shut, begun
}

// LameDuck asks clients to leave while their server goes on, for the time d. If ctx is done before, that's taken back.
// pkg is the adapter.
func LameDuck[L Outer](ctx context.Context, pkg string, d time.Duration, listeners []L) error {
	all, err := innerOf(pkg, "LameDuck", listeners)
	if err != nil {
		return err
	}
	if d < time.Millisecond {
		return fmt.Errorf("%s: LameDuck of %v; it must be at least 1ms; write it with a unit, like 30*time.Second", pkg, d)
	}
	for _, l := range all {
		l.drain.lame.Add(1)
	}
	select {
	case <-ctx.Done():
		for _, l := range all {
			l.drain.lame.Add(-1)
		}
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// defaultDrainGrace is the Drain.CloseDelay of a Shutdown that sets none, unless ForceAfter is
// shorter. It's long enough for a client that is using its connection to learn of the shutdown
// from a response.
const defaultDrainGrace = 2 * time.Second

// Shutdown drains the connections of all listeners, which are those of one server or of
// several, and then shuts the servers down. It takes the place of a drain that is under way. It
// fails if d is not valid, if another Shutdown is under way, or with the error of ctx. pkg is the
// adapter.
func Shutdown[L Outer](ctx context.Context, pkg string, d idle.Drain, listeners []L) error {
	all, err := innerOf(pkg, "Shutdown", listeners)
	if err != nil {
		return err
	}
	if d.CloseDelay == 0 {
		d.CloseDelay = defaultDrainGrace
		if d.ForceAfter > 0 {
			d.CloseDelay = min(d.CloseDelay, d.ForceAfter)
		}
	}
	for _, l := range all {
		if !l.drain.shutting.CompareAndSwap(false, true) {
			return fmt.Errorf("%s: Shutdown: another one is under way", pkg)
		}
		defer l.drain.shutting.Store(false)
	}
	var begun []*idle.Draining
	for _, l := range all {
		own, err := l.tracker.Drain(d)
		if err != nil { // d is invalid, so this is the first listener, and none has begun
			return fmt.Errorf("%s: Shutdown: %w", pkg, err)
		}
		begun = append(begun, own)
		l.drain.stopping.Store(true)
		l.ln.Close()
		defer l.drain.mayFail()
	}
	for i, l := range all {
		l.awaitDrain(ctx, begun[i])
	}
	return shutServers(ctx, all)
}

// awaitDrain waits for the end of own, and of any drain that somebody lets take its place. If ctx is
// done first, it cancels own.
func (l *Listener) awaitDrain(ctx context.Context, own *idle.Draining) {
	for d := own; d != nil; d = l.tracker.Draining() {
		select {
		case <-d.Done():
		case <-ctx.Done():
			own.Cancel()
			return
		}
	}
}

// shutServers shuts down the servers of the listeners, each of them once.
func shutServers(ctx context.Context, all []*Listener) (err error) {
	done := map[any]bool{}
	for _, l := range all {
		if done[l.server] {
			continue
		}
		done[l.server] = true
		if e := l.shut(ctx); !errors.Is(e, net.ErrClosed) {
			err = cmp.Or(err, e)
		}
	}
	return err
}
