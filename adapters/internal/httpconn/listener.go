package httpconn

import (
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

// A Listener is a net.Listener of an HTTP server whose connections are [Conn]s.
// Its trackers end when the listener is closed and the last connection that has
// limits is gone: limits go on while a server shuts down in good order.
type Listener struct {
	net.Listener
	pkg     string
	secure  bool // TLS goes on top of the connections, with config
	config  *tls.Config
	tracker *idle.Tracker
	phases  [numPhases]*idle.Phase
	opts    idlenet.Options
	limits  Limits
	refines bool // the user has not set the tick

	mu     sync.Mutex
	open   int // connections that are tracked, and the listener itself
	closed bool
	fine   *idle.Tracker // of watched connections with short limits; nil until there are some

	watching sync.Mutex    // held while a hijacked connection changes its tracker
	again    atomic.Uint64 // how often one was tracked anew

	calling sync.Mutex
	called  *Conn // see callOut; guarded by calling

	timedOut [numPhases]atomic.Uint64
	http2    http2Limits
}

// NewListener returns a listener that accepts from ln. If ln is a listener of
// crypto/tls, so is what it returns, with its connections below TLS. pkg is the
// package of which the user knows the limits.
func NewListener(pkg string, ln net.Listener, limits Limits) (*Listener, error) {
	ln, config, secure, err := takeApart(ln)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", pkg, err)
	}
	switch ln.(type) {
	case nil:
		return nil, fmt.Errorf("%s: the listener is nil", pkg)
	case *idlenet.Listener:
		return nil, fmt.Errorf("%s: the listener is an *idlenet.Listener; pass the one that it wraps", pkg)
	}
	if err := limits.complete(pkg); err != nil {
		return nil, err
	}
	l := &Listener{Listener: ln, pkg: pkg, secure: secure, config: config, limits: limits, open: 1}
	if l.refines = limits.Idle.Tick == 0; l.refines {
		l.limits.Idle.Tick = limits.tick()
	}
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
	tracker, err := newTracker(l.limits.Idle)
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

// newTracker returns a tracker of connections that enter a phase before anything
// happens to them; but a tracker wants a limit of its own.
func newTracker(opts idle.Options) (*idle.Tracker, error) {
	return idle.New(idle.Policy{IdleTimeout: time.Hour}, &opts)
}

// trackerFor returns the tracker for a watched connection under p. The listener's
// own has the tick that the phases of requests want; a policy that wants a finer
// one gets a second tracker, which all such connections share. A tick that the user
// has set is respected.
func (l *Listener) trackerFor(p idle.Policy) (*idle.Tracker, error) {
	if !l.refines || tickFor(p) >= l.limits.Idle.Tick {
		return l.tracker, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fine != nil {
		return l.fine, nil
	}
	opts := l.limits.Idle
	opts.Tick, opts.Budget = leastTick, min(opts.Budget, leastTick)
	fine, err := newTracker(opts)
	if err != nil {
		return nil, err
	}
	l.fine = fine
	return fine, nil
}

// Accept waits for the next connection. It returns a *[Conn], or a *tls.Conn on
// top of one.
func (l *Listener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if carriesTLS(nc) {
		nc.Close()
		return nil, fmt.Errorf("%s: %w", l.pkg, errBehind(nc))
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
	if l.secure {
		return tls.Server(c, l.config), nil
	}
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
	if l.open > 0 {
		return
	}
	// Closing waits for callbacks, of which this may be one.
	go l.tracker.Close()
	go l.http2.close()
	if l.fine != nil {
		go l.fine.Close()
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

// Stats returns the present counts. A connection that is tracked anew is the same
// one, and not gone.
func (l *Listener) Stats() Stats {
	again := l.again.Load() // first, so that it is not more than what it is taken from
	l.mu.Lock()
	fine := l.fine
	l.mu.Unlock()
	s := Stats{Stats: l.tracker.Stats(), Phases: map[string]uint64{}, Reset: l.http2.reset.Load()}
	if fine != nil {
		s.Stats.Add(fine.Stats())
	}
	s.Tracked -= again
	s.Gone -= again
	for p := range numPhases {
		s.Phases[p.String()] = l.timedOut[p].Load()
	}
	return s
}
