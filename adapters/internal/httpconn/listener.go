package httpconn

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/adapters/internal/descriptors"
	"github.com/idlewheel/idlewheel/adapters/internal/netconn"
	"github.com/idlewheel/idlewheel/idle"
)

// A Listener is a net.Listener of an HTTP server. Its connections have the type [*Conn].
// The adapters have it in their own Listeners.
type Listener struct {
	ln      net.Listener
	pkg     string // the adapter's name, for errors
	http2   HTTP2
	secure  bool // TLS with config runs on top of the connections
	config  *tls.Config
	tracker *idle.Tracker
	phases  [numPhases]*idle.Phase // of tracker, and with HTTP/2, stream is one of streams.tracker
	setup   *netconn.Setup
	options idle.Options // the tracker's

	// SetTimeouts replaces now. The phases have its policies.
	now atomic.Pointer[terms]
	own ownPhases

	served  atomic.Bool // Accept has been called
	closed  atomic.Bool
	checked atomic.Bool // the server serves, and may
	hidden  sync.Once   // logs that the server doesn't report a connection

	// SetServer sets these.
	server any
	shut   func(context.Context) error
	begun  func() (bool, error)

	counts  counts
	streams streams
	drain   drain
}

// HTTP2 says which connections of a server may speak HTTP/2.
type HTTP2 uint8

const (
	NoHTTP2 HTTP2 = iota // none; the server is fasthttp
	OverTLS              // connections with TLS
	OverAny              // connections with and without TLS
)

// NewListener returns a listener that accepts from ln. If ln is a listener of
// crypto/tls, the result accepts TLS connections, and each [Conn] is below TLS.
// pkg is the adapter's package name; errors begin with it.
func NewListener(pkg string, ln net.Listener, t httplimits.Timeouts, h2 HTTP2) (*Listener, error) {
	l, err := newListener(pkg, ln, t, h2)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", pkg, err)
	}
	return l, nil
}

func newListener(pkg string, ln net.Listener, t httplimits.Timeouts, h2 HTTP2) (*Listener, error) {
	for inner := ln; inner != nil; inner = netconn.Embedded(inner) {
		if _, twice := inner.(interface{ Tracker() *idle.Tracker }); twice {
			return nil, fmt.Errorf("the listener is or contains a %T, which has timeouts already; wrap it once", inner)
		}
	}
	ln, config, secure, err := splitTLS(ln)
	if err != nil {
		return nil, err
	}
	if ln == nil {
		return nil, errors.New("the listener is nil")
	}
	now, err := newTerms(t)
	if err != nil {
		return nil, err
	}
	l := &Listener{ln: ln, pkg: pkg, http2: h2, secure: secure, config: config, options: t.Idle}
	l.options.Tick = cmp.Or(l.options.Tick, max(defaultTick, l.options.Budget))
	l.now.Store(now)
	l.drain.stopped, l.drain.mayFail = context.WithCancel(context.Background())
	callbacks := idle.Hooks{
		Ping:    func(owner any) error { return owner.(*Conn).ping() },
		OnEnd:   func(owner any, err *idle.TimeoutError) { owner.(*Conn).onEnd(err) },
		OnDrain: func(owner any) { owner.(*Conn).onDrain() },
	}
	if t.OnTimeout != nil || h2 != NoHTTP2 {
		callbacks.OnTimeout = func(owner any, err *idle.TimeoutError) bool { return owner.(*Conn).onTimeout(err) }
	}
	l.setup = netconn.NewSetup(callbacks, nil)
	probe := l.setup.Hooks.Probe
	l.setup.Hooks.Probe = func(owner any, about idle.Reason) idle.SocketState {
		e := probe(owner, about)
		c := owner.(*Conn)
		e.Unread = e.Unread || about == idle.ReasonPhase && c.isParsing() || c.isFlushing()
		return e
	}
	if l.tracker, err = idle.NewPhased(&l.options, l.setting); err != nil {
		return nil, named("", err)
	}
	if h2 != NoHTTP2 {
		if err := l.streams.init(l); err != nil {
			return nil, err
		}
	}
	if l.phases, err = l.makePhases(now); err != nil {
		return nil, err // a tracker without connections needs no Close
	}
	l.counts.zero(h2)
	return l, nil
}

// Serve wraps ln with newListener, serves on the result and closes it when serve
// returns.
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

// defaultTick suits any policy that Watch may be given.
const defaultTick = 10 * time.Millisecond

// IsServed reports whether a server has begun to accept from l and l is not closed.
func IsServed(l *Listener) bool { return l.served.Load() && !l.closed.Load() }

// Accept waits for the next connection. It returns a *[Conn], or a *tls.Conn on
// top of one.
//
// If the tracker has an [idle.Capacity], connections for which there is no room are refused, and
// Accept goes on waiting. If the process has no descriptor left, Accept evicts connections and
// goes on waiting too.
func (l *Listener) Accept() (net.Conn, error) {
	l.served.Store(true)
	if serves, err := l.checkServer(); serves && err != nil {
		return nil, err
	}
	for {
		nc, err := descriptors.Accept(l.ln, l.tracker)
		if err != nil {
			if l.drain.stopping.Load() {
				<-l.drain.stopped.Done()
			}
			return nil, err
		}
		if err := l.awaitServer(); err != nil {
			nc.Close()
			return nil, err
		}
		c, err := l.take(nc)
		if errors.Is(err, idle.ErrFull) {
			go l.refuse(nc)
			continue
		}
		if err != nil {
			nc.Close()
			return nil, err
		}
		if l.secure {
			return tls.Server(c, l.config), nil
		}
		return c, nil
	}
}

// checkServer reports whether the server has begun to serve, and why it must not.
func (l *Listener) checkServer() (serves bool, err error) {
	if l.begun == nil || l.checked.Load() {
		return true, nil
	}
	serves, err = l.begun()
	if serves && err == nil {
		l.checked.Store(true)
	}
	return serves, err
}

// startTime is how long a server may take to begin after a connection has arrived. A listener on top, such as a
// multiplexer, may accept before it.
const startTime = time.Second

// awaitServer returns nil when the server serves. It fails if that doesn't happen in time. Then another server
// accepts from l. It doesn't report what happens to connections, so HandshakeTimeout would cut every one of them.
func (l *Listener) awaitServer() error {
	for begun := time.Now(); ; time.Sleep(startTime / 100) {
		switch serves, err := l.checkServer(); {
		case serves:
			return err
		case time.Since(begun) > startTime:
			return fmt.Errorf("%s: a connection has arrived, but the server that was prepared for the listener doesn't serve it; call Serve of that one", l.pkg)
		}
	}
}

// logHidden logs that a server uses a connection but reports nothing about it, because it's another server or a wrapper hides it.
func (l *Listener) logHidden() {
	cmp.Or(l.options.Logger, slog.Default()).Error(l.pkg + ": HandshakeTimeout has ended a connection that its server did not report, and will end others; " +
		"serve the listener by the server that was prepared for it, and give wrappers of its connections a method NetConn")
}

// take returns nc with timeouts.
func (l *Listener) take(nc net.Conn) (*Conn, error) {
	if carriesTLS(nc) {
		return nil, fmt.Errorf("%s: %w", l.pkg, errHiddenTLS(nc))
	}
	c := &Conn{listener: l}
	if err := c.Init(nc, l.tracker, c, l.setup); err != nil {
		if errors.Is(err, idle.ErrClosed) && l.closed.Load() {
			err = net.ErrClosed // the last connection has ended
		}
		return nil, err
	}
	c.state.Store(unserved)
	c.Conn.Enter(l.phases[Handshake])
	return c, nil
}

// Close closes the listener but none of its connections. Their timeouts stay in
// force until the last connection that has limits is gone, so they also hold
// during a graceful shutdown.
func (l *Listener) Close() error {
	err := l.ln.Close()
	if l.drain.stopping.Load() {
		err = nil // as Shutdown has closed it
	}
	l.drain.mayFail()
	if !l.closed.Swap(true) && l.streams.tracker != nil {
		go func() {
			<-l.tracker.Done()
			l.streams.tracker.Close()
		}()
	}
	l.tracker.CloseWhenEmpty()
	return err
}

// Addr returns the listener's address.
func (l *Listener) Addr() net.Addr { return l.ln.Addr() }

// Tracker returns the tracker of the connections. Its own policy never applies,
// because every connection is in a phase.
func (l *Listener) Tracker() *idle.Tracker { return l.tracker }
