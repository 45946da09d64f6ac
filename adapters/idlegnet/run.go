package idlegnet

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"
	gneterrors "github.com/panjf2000/gnet/v2/pkg/errors"
	"github.com/panjf2000/gnet/v2/pkg/logging"

	"github.com/idlewheel/idlewheel/idle"
)

// A run is the time from OnBoot to OnShutdown.
type run struct {
	tracker *idle.Tracker
	engine  gnet.Engine
	most    int // Options.MaxUnsent
	begun   time.Time
	leaving atomic.Bool // Shutdown has begun: connections are refused
	loops   sync.Map    // maps gnet.EventLoop to *loop

	// mu is held for reading while something is handed to a loop. Execute writes
	// to a descriptor of the loop's poller. After OnShutdown gnet closes that,
	// and the descriptor may be reused for another file. So nothing may be handed
	// to a loop then.
	mu    sync.RWMutex
	ended bool
}

var errTwice = errors.New("idlegnet: the handler already serves an engine; call Wrap once for each engine")

// boot begins a run.
func (h *Handler) boot(eng gnet.Engine) error {
	if old := h.run.Load(); old != nil {
		// If gnet fails between OnBoot and its start, it does not call
		// OnShutdown.
		if old.used() {
			return errTwice
		}
		old.end()
	}
	tracker, err := h.newTracker()
	if err != nil {
		return err
	}
	h.run.Store(&run{tracker: tracker, engine: eng, most: h.opts.MaxUnsent, begun: time.Now()})
	return nil
}

// newTracker makes the tracker of a run.
func (h *Handler) newTracker() (*idle.Tracker, error) {
	t, err := idle.New(h.policy, &h.opts.Idle)
	if err != nil {
		return nil, err
	}
	err = t.Expect(&h.hooks)
	if c := h.opts.Capacity; err == nil && (c.MaxConns != 0 || c.MinIdle != 0 || c.Exempt != nil) {
		err = t.SetCapacity(c)
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// elapsed returns the time since the run began.
func (r *run) elapsed() time.Duration { return time.Since(r.begun) }

// used reports whether the run has had connections and has not ended.
func (r *run) used() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	opened := false
	r.loops.Range(func(any, any) bool { opened = true; return false })
	return opened && !r.ended
}

// isOver reports whether the run has ended.
func (r *run) isOver() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.ended
}

// end stops the tracker's goroutine and waits for it. After end, nothing is
// handed to a loop any more.
func (r *run) end() {
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	r.tracker.Close() // fails the second time, which does no harm
}

// execute runs f on el soon. It may be called from any goroutine.
func (r *run) execute(el gnet.EventLoop, f func()) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.ended {
		return gneterrors.ErrEngineInShutdown
	}
	return el.Execute(context.Background(), gnet.RunnableFunc(func(context.Context) error { f(); return nil }))
}

// A loop is an event loop with its shard.
type loop struct {
	run   *run
	el    gnet.EventLoop
	shard *idle.Shard

	opened, closed rare // shared by connections that have none of their own; never changed

	// These are about the current pass.
	passing  bool
	expired  *conn              // the last connection that was closed because of a timeout
	timeout  *idle.TimeoutError // why expired was closed
	shutdown error              // the shutdown that OnClose has asked for
	panicked any                // what OnClose has panicked with
}

// loop returns the loop of el. It must be called on el.
func (r *run) loop(el gnet.EventLoop) (*loop, error) {
	if l, ok := r.loops.Load(el); ok {
		return l.(*loop), nil
	}
	l := &loop{run: r, el: el, opened: rare{phase: r.tracker.Initial()}, closed: rare{inbound: -1}}
	var err error
	if l.shard, err = r.tracker.NewShard(l.post); err != nil {
		return nil, err
	}
	r.loops.Store(el, l)
	return l, nil
}

// post hands a pass to the loop. The tracker's driver calls it, and only when no
// other pass is pending: gnet empties its task queue before it polls, so passes
// that post the next one would keep the loop busy forever.
func (l *loop) post(pass func()) error {
	return l.el.Execute(context.Background(), gnet.RunnableFunc(func(context.Context) error {
		l.passing, l.expired, l.timeout = true, nil, nil
		pass()
		l.passing = false
		if l.panicked != nil {
			panic(l.panicked)
		}
		return l.shutdown
	}))
}

// close closes c. gnet calls OnClose before el.Close returns. If OnClose asks for a shutdown, the
// pass returns that to gnet at its end.
func (l *loop) close(c gnet.Conn) {
	if err := l.el.Close(c); errors.Is(err, gneterrors.ErrEngineShutdown) {
		l.shutdown = err
	}
}

// notePanic is deferred around an OnClose that a pass has caused. The tracker
// recovers panics of callbacks and logs them with their stack. But a panic in
// OnClose leaves the connection half closed, and outside a pass it ends the
// process. So post panics again at the end of the pass.
func (l *loop) notePanic() {
	if p := recover(); p != nil {
		l.panicked = p
		panic(p)
	}
}

// track starts tracking c, which has just been opened. It returns nil if c cannot
// be tracked. refused says that there is no room for c, or that the server shuts down.
func (h *Handler) track(c gnet.Conn) (s *conn, refused bool) {
	if _, udp := c.LocalAddr().(*net.UDPAddr); udp { // a client's connection; for a server's, gnet does not call OnOpen
		return nil, false
	}
	r := h.run.Load()
	if r.leaving.Load() {
		return nil, true
	}
	l, err := r.loop(c.EventLoop())
	if err != nil { // the run has ended
		return nil, false
	}
	s = &conn{c: c, loop: l, rare: &l.opened}
	if err := l.shard.Track(&s.track, (*Conn)(s), &h.hooks); err != nil {
		return nil, errors.Is(err, idle.ErrFull)
	}
	if !h.table.put(s) {
		logging.Errorf("idlegnet: %v has the descriptor %d, which is too large; it has no timeouts", c.RemoteAddr(), c.Fd())
		s.track.Stop()
		return nil, false
	}
	s.track.AwaitWrite() // always, see backlog
	return s, false
}
