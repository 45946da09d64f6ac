package idlegnet

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/panjf2000/gnet/v2/pkg/logging"

	"github.com/idlewheel/idlewheel/idle"
)

// Options are what few servers need: callbacks, and settings of the tracker. Nil
// Options, and every zero field, stand for none, or the default. The callbacks run on
// the loop of the connection that they get, and must not block.
type Options struct {
	// Ping returns a heartbeat message, which is then written to c; or it
	// writes to c itself and returns nil. The policy's active Heartbeat
	// requires it.
	Ping func(c gnet.Conn) []byte

	// OnTimeout is asked before a connection is timed out. If it returns true,
	// the connection is kept, and the limit begins anew.
	OnTimeout func(c gnet.Conn, err *idle.TimeoutError) (keep bool)

	// OnDrain is told when a connection has passed MaxAge, so that it can be
	// finished in good order within MaxAgeGrace; not if that is zero.
	OnDrain func(c gnet.Conn)

	// Idle has the grain of the timeouts and more. Its Budget, how long a loop
	// may be kept from its work at a time, is 1 ms by default, or half a tick if
	// that is less. Its Shards are not used: there is one a loop.
	Idle idle.Options
}

// defaultBudget is how long a loop may work on timeouts at a time.
const defaultBudget = time.Millisecond

// complete returns o, which may be nil, with the defaults of this package.
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

// hooks returns what a tracker is to call.
func (o *Options) hooks() idle.Hooks {
	h := idle.Hooks{
		Examine: func(owner any, about idle.Reason) idle.Evidence { return owner.(*conn).examine(about) },
		Expire:  func(owner any, err *idle.TimeoutError) { owner.(*conn).expire(err) },
	}
	if o.Ping != nil {
		h.Ping = func(owner any) error { return owner.(*conn).ping(o.Ping) }
	}
	if o.OnTimeout != nil {
		h.OnTimeout = func(owner any, err *idle.TimeoutError) bool { return owner.(*conn).ask(o.OnTimeout, err) }
	}
	if o.OnDrain != nil {
		h.OnDrain = func(owner any) {
			s := owner.(*conn)
			defer s.after()
			o.OnDrain(s.c)
		}
	}
	return h
}

// Handler is a gnet.EventHandler that times connections out. It serves one
// engine, or one client, at a time. Its On methods are gnet's to call.
type Handler struct {
	user  gnet.EventHandler
	table table // beside user: OnTraffic needs the two

	policy idle.Policy
	opts   Options
	hooks  idle.Hooks
	run    atomic.Pointer[run] // the last one that OnBoot has begun
}

var _ gnet.EventHandler = (*Handler)(nil)

// Wrap returns a handler that passes everything on to h, and has the connections
// under the policy p from OnOpen on. opts may be nil.
//
// It fails if h is nil or a [*Handler] already, if p sets no limit, or asks for pings
// and opts has no Ping, and if a value in p or opts makes no sense.
func Wrap(h gnet.EventHandler, p idle.Policy, opts *Options) (*Handler, error) {
	w := &Handler{user: h, policy: p, opts: opts.complete()}
	if _, twice := h.(*Handler); twice || h == nil {
		return nil, fmt.Errorf("idlegnet: the handler to wrap is a %T; wrap the user's own, once", h)
	}
	w.hooks = w.opts.hooks()
	if err := w.hooks.Check(p); err != nil {
		return nil, err
	}
	// OnBoot makes the tracker: it has a goroutine, and nobody would end it if gnet
	// failed before. This one finds the errors.
	trial, err := idle.New(p, &w.opts.Idle)
	if err != nil {
		return nil, err
	}
	trial.Retire()
	return w, nil
}

// Tracker returns what tracks the connections of the present run, or of the last one:
// each has its own. It is nil before OnBoot. It may be called by any goroutine. The
// handler closes it after OnShutdown. To close it earlier ends all timeouts at once.
func (h *Handler) Tracker() *idle.Tracker {
	if r := h.run.Load(); r != nil {
		return r.tracker
	}
	return nil
}

// Stats returns the counts since the last OnBoot, zero before the first. It may
// be called by any goroutine.
func (h *Handler) Stats() idle.Stats {
	if t := h.Tracker(); t != nil {
		return t.Stats()
	}
	return idle.Stats{}
}

// OnBoot implements gnet.EventHandler.
func (h *Handler) OnBoot(eng gnet.Engine) gnet.Action {
	if err := h.boot(); err != nil {
		logging.Errorf("%v", err)
		return gnet.Shutdown
	}
	action := h.user.OnBoot(eng)
	// A server that is told to shut down here does so without OnShutdown. A
	// client, which has no listeners and so is not valid, does not care.
	if action == gnet.Shutdown && eng.Validate() == nil {
		h.run.Load().end()
	}
	return action
}

// OnShutdown implements gnet.EventHandler. Timeouts go on until the user's
// OnShutdown, which may wait for connections to end, has returned. After it
// gnet still calls OnClose, and even OnOpen, but nothing is done on any loop
// any more.
func (h *Handler) OnShutdown(eng gnet.Engine) {
	if r := h.run.Load(); r != nil {
		defer r.end()
	}
	h.user.OnShutdown(eng)
}

// OnOpen implements gnet.EventHandler.
func (h *Handler) OnOpen(c gnet.Conn) (out []byte, action gnet.Action) {
	s := h.track(c) // before the user's OnOpen, which may call Enter
	out, action = h.user.OnOpen(c)
	if s != nil {
		s.opened(len(out))
	}
	return out, action
}

// OnTraffic implements gnet.EventHandler.
func (h *Handler) OnTraffic(c gnet.Conn) gnet.Action {
	s := h.table.get(c)
	if s == nil {
		return h.user.OnTraffic(c)
	}
	arrived := s.before()
	action := h.user.OnTraffic(c)
	s.after()
	if arrived { // until now: while the handler is at work nothing else can move
		s.track.Touch()
	}
	return action
}

// OnClose implements gnet.EventHandler.
func (h *Handler) OnClose(c gnet.Conn, err error) gnet.Action {
	if s := h.table.get(c); s != nil {
		h.table.remove(s)
		s.close()
		s.track.Close()
		if s.timeout != nil {
			err = s.timeout
		}
		if s.loop.passing {
			defer s.loop.notePanic()
		}
	}
	return h.user.OnClose(c, err)
}

// OnTick implements gnet.EventHandler.
func (h *Handler) OnTick() (delay time.Duration, action gnet.Action) { return h.user.OnTick() }
