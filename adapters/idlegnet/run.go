package idlegnet

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/panjf2000/gnet/v2"
	gneterrors "github.com/panjf2000/gnet/v2/pkg/errors"
	"github.com/panjf2000/gnet/v2/pkg/logging"

	"github.com/idlewheel/idlewheel/idle"
)

// A run is the time from OnBoot to OnShutdown.
type run struct {
	tracker *idle.Tracker
	first   *idle.Phase // that connections begin with
	loops   sync.Map    // of gnet.EventLoop to *loop

	// mu is held for reading while something is handed to a loop. Once gnet
	// has closed its pollers their descriptors may be anybody's, and Execute
	// would write to them, so that must not happen after OnShutdown.
	mu   sync.RWMutex
	over bool
}

var errTwice = errors.New("idlegnet: the handler serves an engine already; wrap the user's handler once for each")

// boot begins a run.
func (h *Handler) boot() error {
	if old := h.run.Load(); old != nil {
		// If gnet fails between OnBoot and its start, there is no OnShutdown.
		if old.used() {
			return errTwice
		}
		old.end()
	}
	tracker, err := idle.New(h.policy, &h.opts.Idle)
	if err != nil {
		return err
	}
	first, err := tracker.Phase(h.policy)
	if err != nil {
		return err
	}
	h.run.Store(&run{tracker: tracker, first: first})
	return nil
}

// used reports whether the run is not over, and has had connections.
func (r *run) used() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	opened := false
	r.loops.Range(func(any, any) bool { opened = true; return false })
	return opened && !r.over
}

// end stops the tracker's goroutine and waits for that. Afterwards nothing is
// handed to a loop any more.
func (r *run) end() {
	r.mu.Lock()
	r.over = true
	r.mu.Unlock()
	r.tracker.Close() // the second time it fails, which is fine
}

// execute has f run on el soon. It may be called by any goroutine.
func (r *run) execute(el gnet.EventLoop, f func()) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.over {
		return gneterrors.ErrEngineInShutdown
	}
	return el.Execute(context.Background(), gnet.RunnableFunc(func(context.Context) error { f(); return nil }))
}

// A loop is an event loop with its shard.
type loop struct {
	run   *run
	el    gnet.EventLoop
	shard *idle.Shard

	// Of the present pass:
	passing  bool
	refused  *conn // the last one that OnTimeout did not want to keep
	shutdown error // that OnClose asked for
	panicked any   // by OnClose
}

// loop returns the loop that el is. It must be called on it.
func (r *run) loop(el gnet.EventLoop) (*loop, error) {
	if l, ok := r.loops.Load(el); ok {
		return l.(*loop), nil
	}
	l := &loop{run: r, el: el}
	var err error
	if l.shard, err = r.tracker.NewShard(l.post); err != nil {
		return nil, err
	}
	r.loops.Store(el, l)
	return l, nil
}

// post hands a pass to the loop. The tracker's driver calls it, with at most
// one pass on its way: gnet runs what is queued until the queue is empty, so a
// pass that posted the next one would keep the loop for good.
func (l *loop) post(pass func()) error {
	return l.el.Execute(context.Background(), gnet.RunnableFunc(func(context.Context) error {
		l.passing, l.refused = true, nil
		pass()
		l.passing = false
		if l.panicked != nil {
			panic(l.panicked)
		}
		return l.shutdown
	}))
}

// close closes c, which calls OnClose before it returns. If that asks for a
// shutdown, gnet learns of it at the end of the pass.
func (l *loop) close(c gnet.Conn) {
	if err := l.el.Close(c); errors.Is(err, gneterrors.ErrEngineShutdown) {
		l.shutdown = err
	}
}

// notePanic is deferred around an OnClose that a pass has caused. The tracker
// survives panics in callbacks, and logs them with their stack; but one in
// OnClose would leave the connection half closed, and ends the process when it
// happens at any other time. So it does at the end of the pass.
func (l *loop) notePanic() {
	if p := recover(); p != nil {
		l.panicked = p
		panic(p)
	}
}

// track begins to track c, which has just been opened, or returns nil if that
// is not to be.
func (h *Handler) track(c gnet.Conn) *conn {
	if _, udp := c.LocalAddr().(*net.UDPAddr); udp { // of a client; a server's has no OnOpen
		return nil
	}
	r := h.run.Load()
	l, err := r.loop(c.EventLoop())
	if err != nil { // the run is over
		return nil
	}
	s := &conn{c: c, loop: l, phase: r.first}
	if err := l.shard.Track(&s.track, s, &h.hooks); err != nil {
		return nil
	}
	if !h.table.put(s) {
		logging.Errorf("idlegnet: %v has the descriptor %d, which is too large; it has no timeouts", c.RemoteAddr(), c.Fd())
		s.track.Close()
		return nil
	}
	s.track.AwaitWrite() // always: see backlog
	return s
}
