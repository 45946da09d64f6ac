package idlegnet

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/panjf2000/gnet/v2/pkg/logging"

	"github.com/idlewheel/idlewheel/idle"
)

// Options has callbacks, and settings of the tracker. Each field may be zero, which means no
// callback or the default. Nil Options mean all defaults. A callback runs on the loop of its
// connection, and must not block.
type Options struct {
	// Ping writes a heartbeat message to c. An active Heartbeat in the policy
	// requires it.
	Ping func(c gnet.Conn) error

	// OnTimeout is called before a connection is timed out. If it returns true
	// the connection is kept, and the limit starts over. It isn't called for MaxAge, a Drain,
	// End or an eviction.
	OnTimeout func(c gnet.Conn, err *idle.TimeoutError) (keep bool)

	// OnEnd is called once when a connection is ended by a limit, a Drain, End or an
	// eviction, with the reason. It may write a farewell to c. The connection is closed when
	// OnEnd has returned, so bytes that the kernel doesn't accept at once are lost.
	OnEnd func(c gnet.Conn, err *idle.TimeoutError)

	// OnDrain asks the peer to finish. It is called when a connection has its turn
	// in a Drain, even if the connection is busy. It is also called when
	// one has passed MaxAge, unless MaxAgeGrace is zero.
	OnDrain func(c gnet.Conn)

	// MaxUnsent ends a connection for which gnet holds back more bytes than this, because its
	// peer doesn't read. 0 disables it. The error has [idle.ReasonShed] and the cause
	// "max_unsent", which Stats.Causes counts. gnet is asked after each callback of the
	// connection, when a limit is checked, and in [Conn.Sent], which the callback of an
	// AsyncWrite can call.
	MaxUnsent int

	// Capacity is the [idle.Capacity] of the tracker. The zero Capacity sets no limit.
	Capacity idle.Capacity

	// Idle has the options of the tracker. Its Budget limits how long a pass may take, and so how
	// long it keeps a loop from its other work. The default is 1 ms, or half a tick if that is
	// less. Its Shards is ignored: each loop has one shard. The owner that Label and a Visit get
	// is the [*Conn].
	Idle idle.Options
}

// defaultBudget is how long a loop may work on timeouts at a time.
const defaultBudget = time.Millisecond

// complete returns a copy of o with this package's defaults. o may be nil.
func (o *Options) complete() Options {
	var full Options
	if o != nil {
		full = *o
	}
	full.Idle.Shards = 1
	if tick := full.Idle.Tick; full.Idle.Budget == 0 && (tick == 0 || tick/2 > defaultBudget) {
		full.Idle.Budget = defaultBudget
	}
	return full
}

// connOf returns the connection that is tracked with the given owner.
func connOf(owner any) *conn { return (*conn)(owner.(*Conn)) }

// hooks returns the hooks for a tracker.
func (o *Options) hooks() idle.Hooks {
	h := idle.Hooks{
		Probe:  func(owner any, about idle.Reason) idle.SocketState { return connOf(owner).examine(about) },
		Unsent: func(owner any) int { return connOf(owner).c.OutboundBuffered() },
		Expire: func(owner any, err *idle.TimeoutError) { connOf(owner).expire(err) },
	}
	if o.Ping != nil {
		h.Ping = func(owner any) error { return connOf(owner).ping(o.Ping) }
	}
	if o.OnTimeout != nil {
		h.OnTimeout = func(owner any, err *idle.TimeoutError) bool { return connOf(owner).onTimeout(o.OnTimeout, err) }
	}
	if o.OnEnd != nil {
		h.OnEnd = func(owner any, err *idle.TimeoutError) {
			s := connOf(owner)
			s.loop.expired, s.loop.timeout = s, err // OnEnd may close it
			o.OnEnd(s.c, err)
		}
	}
	if o.OnDrain != nil {
		h.OnDrain = func(owner any) {
			s := connOf(owner)
			defer s.afterCallback()
			o.OnDrain(s.c)
		}
	}
	return h
}

// Handler is a gnet.EventHandler that times connections out. It serves one engine
// or one client at a time. gnet calls its On methods.
type Handler struct {
	user  gnet.EventHandler
	table table // next to user, because OnTraffic needs both

	policy idle.Policy
	opts   Options
	hooks  idle.Hooks
	run    atomic.Pointer[run] // the run that OnBoot has begun last

	refused sync.Map // connections that were refused, until OnClose
}

var _ gnet.EventHandler = (*Handler)(nil)

// Wrap returns a handler that forwards everything to h and applies the policy p
// to connections from OnOpen on. opts may be nil.
//
// Wrap fails if h is nil or already a [*Handler], if p sets no limit, if p has an
// active Heartbeat and opts has no Ping, and if a value in p or opts is invalid.
func Wrap(h gnet.EventHandler, p idle.Policy, opts *Options) (*Handler, error) {
	w := &Handler{user: h, policy: p, opts: opts.complete()}
	if _, twice := h.(*Handler); twice || h == nil {
		return nil, fmt.Errorf("idlegnet: the handler to wrap is a %T; pass your own gnet.EventHandler, and wrap it once", h)
	}
	if w.opts.MaxUnsent < 0 {
		return nil, fmt.Errorf("idlegnet: Options.MaxUnsent is %d; use 0 to disable it", w.opts.MaxUnsent)
	}
	w.hooks = w.opts.hooks()
	// OnBoot makes the tracker of each run. Making it here would leak its
	// goroutine if gnet failed before OnBoot. This trial only finds errors in p
	// and opts.
	trial, err := w.newTracker()
	if err != nil {
		return nil, err
	}
	trial.Close()
	return w, nil
}

// Tracker returns the tracker of the current run, or of the last one if the engine has stopped.
// Each run has its own. It is nil before OnBoot. Tracker may be called from any goroutine. The
// handler closes the tracker after OnShutdown. Closing it earlier ends all timeouts at once.
func (h *Handler) Tracker() *idle.Tracker {
	if r := h.run.Load(); r != nil {
		return r.tracker
	}
	return nil
}

// Stats returns the counts since the last OnBoot. They are zero before the first.
// Stats may be called from any goroutine.
func (h *Handler) Stats() idle.Stats {
	if t := h.Tracker(); t != nil {
		return t.Stats()
	}
	return idle.Stats{}
}

// OnBoot implements gnet.EventHandler.
func (h *Handler) OnBoot(eng gnet.Engine) gnet.Action {
	if err := h.boot(eng); err != nil {
		logging.Errorf("%v", err)
		return gnet.Shutdown
	}
	action := h.user.OnBoot(eng)
	// A server that is told to shut down here does not call OnShutdown. A client
	// has no listeners, so Validate fails, and it ignores the action.
	if action == gnet.Shutdown && eng.Validate() == nil {
		h.run.Load().end()
	}
	return action
}

// OnShutdown implements gnet.EventHandler. The user's OnShutdown may wait for
// connections to end, so timeouts stay in force until it has returned. gnet still
// calls OnClose and even OnOpen after that, but nothing is handed to a loop any
// more.
func (h *Handler) OnShutdown(eng gnet.Engine) {
	if r := h.run.Load(); r != nil {
		defer r.end()
	}
	h.user.OnShutdown(eng)
}

// OnOpen implements gnet.EventHandler. If the tracker has an [idle.Capacity] and there is no room
// for a connection, the connection is closed, and the user's handler isn't called. The same
// applies to connections that arrive during [Handler.Shutdown].
func (h *Handler) OnOpen(c gnet.Conn) (out []byte, action gnet.Action) {
	s, refused := h.track(c) // before the user's OnOpen, which may call Enter
	if refused {
		h.refused.Store(c, nil)
		return nil, gnet.Close
	}
	out, action = h.user.OnOpen(c)
	if s != nil {
		s.afterOpen(len(out))
	}
	return out, action
}

// OnTraffic implements gnet.EventHandler.
func (h *Handler) OnTraffic(c gnet.Conn) gnet.Action {
	s := h.table.get(c)
	if s == nil {
		return h.user.OnTraffic(c)
	}
	arrived := s.beforeTraffic()
	action := h.user.OnTraffic(c)
	s.afterTraffic(arrived)
	return action
}

// OnClose implements gnet.EventHandler.
func (h *Handler) OnClose(c gnet.Conn, err error) gnet.Action {
	if s := h.table.get(c); s != nil {
		h.table.remove(s)
		s.markClosed()
		s.track.Stop()
		if s.loop.expired == s {
			err = s.loop.timeout
		}
		if s.loop.passing {
			defer s.loop.notePanic()
		}
	} else if _, refused := h.refused.LoadAndDelete(c); refused {
		return gnet.None
	}
	return h.user.OnClose(c, err)
}

// OnTick implements gnet.EventHandler.
func (h *Handler) OnTick() (delay time.Duration, action gnet.Action) { return h.user.OnTick() }
