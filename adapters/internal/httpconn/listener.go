package httpconn

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

// A Listener is a net.Listener of an HTTP server whose connections are [Conn]s.
// Its tracker ends when the listener is closed and the last connection is gone:
// limits go on while a server shuts down in good order.
type Listener struct {
	net.Listener
	tracker *idle.Tracker
	phases  [numPhases]*idle.Phase
	opts    idlenet.Options
	limits  Limits

	mu     sync.Mutex
	open   int // connections, and the listener itself
	closed bool

	calling sync.Mutex
	called  *Conn // see callOut; guarded by calling

	timedOut [numPhases]atomic.Uint64
	http2    http2Limits
}

// NewListener returns a listener that accepts from ln. pkg is the package of
// which the user knows the limits.
func NewListener(pkg string, ln net.Listener, limits Limits) (*Listener, error) {
	switch ln.(type) {
	case nil:
		return nil, fmt.Errorf("%s: the listener is nil", pkg)
	case *idlenet.Listener:
		return nil, fmt.Errorf("%s: the listener is an *idlenet.Listener; pass the one that it wraps", pkg)
	}
	if err := limits.complete(pkg); err != nil {
		return nil, err
	}
	if limits.Idle.Tick == 0 {
		limits.Idle.Tick = limits.tick()
	}
	l := &Listener{Listener: ln, limits: limits, open: 1}
	l.opts = idlenet.Options{
		Ping:  func(c *idlenet.Conn) error { return outer(c).ping() },
		OnEnd: func(c *idlenet.Conn, err *idle.TimeoutError) { outer(c).part(err) },
	}
	if ask := limits.OnTimeout; ask != nil {
		l.opts.OnTimeout = func(c *idlenet.Conn, err *idle.TimeoutError) bool {
			err.Phase = outer(c).phaseOf(err)
			return ask(outer(c), err)
		}
	}
	// Every connection enters a phase before anything happens to it; but a
	// tracker wants a limit of its own.
	tracker, err := idle.New(idle.Policy{IdleTimeout: time.Hour}, &limits.Idle)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", pkg, err)
	}
	for p, policy := range limits.policies() {
		if l.phases[p], err = tracker.Phase(policy); err != nil {
			tracker.Close()
			return nil, fmt.Errorf("%s: of the %s: %w", pkg, Phase(p), err)
		}
	}
	if err := l.http2.prepare(tracker, &l.limits); err != nil {
		tracker.Close()
		return nil, fmt.Errorf("%s: of HTTP/2: %w", pkg, err)
	}
	l.tracker = tracker
	return l, nil
}

// Accept waits for the next connection.
func (l *Listener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if !l.begin() {
		nc.Close()
		return nil, net.ErrClosed
	}
	c := &Conn{listener: l}
	if err := c.Init(nc, l.tracker, &l.opts); err != nil {
		l.end()
		nc.Close()
		return nil, err
	}
	c.state.Store(refused)
	c.Conn.Enter(l.phases[Handshake])
	return c, nil
}

// Close closes the listener, but no connection.
func (l *Listener) Close() error {
	err := l.Listener.Close()
	l.mu.Lock()
	first := !l.closed
	l.closed = true
	l.mu.Unlock()
	if first {
		l.end()
	}
	return err
}

// begin counts a connection, unless the last one has gone for good.
func (l *Listener) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == 0 {
		return false
	}
	l.open++
	return true
}

// end counts a connection, or the listener itself, as closed.
func (l *Listener) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if l.open == 0 {
		// Closing waits for callbacks, of which this may be one.
		go l.tracker.Close()
		go l.http2.close()
	}
}

// count counts a timeout in the phase of the given name.
func (l *Listener) count(name string) {
	for p, phase := range l.phases {
		if phase.Policy().Name == name {
			l.timedOut[p].Add(1)
			return
		}
	}
	l.timedOut[Hijacked].Add(1) // of a policy of the user's
}

// Stats are the counts of a listener's connections.
type Stats struct {
	idle.Stats

	// Phases is how many connections have timed out in each phase, by name.
	Phases map[string]uint64

	// Reset is how many streams of HTTP/2 have been reset.
	Reset uint64
}

// Stats returns the present counts.
func (l *Listener) Stats() Stats {
	s := Stats{Stats: l.tracker.Stats(), Phases: map[string]uint64{}, Reset: l.http2.reset.Load()}
	for p := range numPhases {
		s.Phases[p.String()] = l.timedOut[p].Load()
	}
	return s
}

// ErrForeign is what it gives to watch a connection that is not a listener's of
// this library.
var ErrForeign = errors.New("the connection does not come from a listener of this package, or was not hijacked")
