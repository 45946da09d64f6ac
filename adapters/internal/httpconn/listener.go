package httpconn

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/adapters/internal/http2conn"
	"github.com/idlewheel/idlewheel/idle"
)

// A Listener is a net.Listener of an HTTP server whose connections are [Conn]s. The
// Listeners of the adapters embed it, so its exported methods are what their users see.
type Listener struct {
	net.Listener
	pkg      string // of which the user knows the settings
	http2    HTTP2
	secure   bool // TLS goes on top of the connections, with config
	config   *tls.Config
	tracker  *idle.Tracker
	phases   [numPhases]*idle.Phase
	known    map[name]string // the limits by which connections end
	setup    *idlenet.Setup
	timeouts httplimits.Timeouts
	refines  bool // the user has not set the tick

	mu     sync.Mutex
	open   int // connections that are tracked, and the listener itself
	closed bool
	fine   *idle.Tracker // of watched connections with short limits; nil until there are some

	watching sync.Mutex    // held while a hijacked connection changes its tracker
	again    atomic.Uint64 // how often one was tracked anew

	calling sync.Mutex
	called  *Conn // see callOut; guarded by calling

	counts  counts
	streams streams
}

// HTTP2 says which connections of a server may speak it.
type HTTP2 uint8

const (
	NoHTTP2   HTTP2 = iota // none
	OverTLS                // those with TLS
	HTTP2Also              // those without TLS too
)

// NewListener returns a listener that accepts from ln. If ln is a listener of
// crypto/tls, so is what it returns, with its connections below TLS. pkg is the
// package whose settings the user knows.
func NewListener(pkg string, ln net.Listener, t httplimits.Timeouts, h2 HTTP2) (*Listener, error) {
	l, err := newListener(pkg, ln, t, h2)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", pkg, err)
	}
	return l, nil
}

func newListener(pkg string, ln net.Listener, t httplimits.Timeouts, h2 HTTP2) (*Listener, error) {
	if _, twice := ln.(interface{ release(*Conn) }); twice {
		return nil, errors.New("the listener has timeouts already; wrap it once")
	}
	ln, config, secure, err := takeApart(ln)
	if err != nil {
		return nil, err
	}
	switch ln.(type) {
	case nil:
		return nil, errors.New("the listener is nil")
	case *idlenet.Listener:
		return nil, errors.New("the listener is an *idlenet.Listener; pass the one that it wraps")
	}
	policies, known, err := prepare(&t)
	if err != nil {
		return nil, err
	}
	l := &Listener{Listener: ln, pkg: pkg, http2: h2, secure: secure, config: config, known: known, timeouts: t, open: 1}
	if l.refines = t.Idle.Tick == 0; l.refines {
		l.timeouts.Idle.Tick = tickFor(policies[:]...)
	}
	opts := &idlenet.Options{
		Ping:  func(c *idlenet.Conn) error { return outer(c).ping() },
		OnEnd: func(c *idlenet.Conn, err *idle.TimeoutError) { outer(c).part(err) },
	}
	if t.OnTimeout != nil {
		opts.OnTimeout = func(c *idlenet.Conn, err *idle.TimeoutError) bool { return outer(c).keep(err) }
	}
	l.setup, l.streams.hooks = idlenet.NewSetup(opts), http2conn.Hooks(t.OnTimeout != nil)
	if l.tracker, err = newTracker(l.timeouts.Idle); err != nil {
		return nil, err
	}
	for p, policy := range policies {
		if l.phases[p], err = l.tracker.Phase(policy); err != nil {
			l.tracker.Close()
			return nil, fmt.Errorf("of the %s: %w", Phase(p), err)
		}
	}
	l.counts.begin(l)
	return l, nil
}

// Serve makes a listener of ln by newListener, serves on it, and closes it when that
// is over.
func Serve[S any, L net.Listener](s S, ln net.Listener, t httplimits.Timeouts,
	newListener func(S, net.Listener, httplimits.Timeouts) (L, error), serve func(net.Listener) error) error {
	l, err := newListener(s, ln, t)
	if err != nil {
		if ln != nil {
			ln.Close()
		}
		return err
	}
	defer l.Close()
	return serve(l)
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
	if !l.refines || tickFor(p) >= l.timeouts.Idle.Tick {
		return l.tracker, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fine != nil {
		return l.fine, nil
	}
	opts := l.timeouts.Idle
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
	if err := c.Init(nc, l.tracker, l.setup); err != nil {
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

// Close closes the listener, but no connection. Timeouts go on until the last
// connection that has limits is gone, also while a server shuts down in good order.
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
	go l.streams.close()
	if l.fine != nil {
		go l.fine.Close()
	}
}

// Tracker returns the tracker of the connections. They are in phases, so its own policy
// says nothing.
func (l *Listener) Tracker() *idle.Tracker { return l.tracker }
