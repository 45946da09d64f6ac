package idle

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// callbacks runs the user's functions, recovers their panics, and counts those
// that have not returned.
type callbacks struct {
	logger  *slog.Logger
	panics  atomic.Uint64
	mu      sync.Mutex // guards limit
	limit   logLimit   // of panics
	running running    // goroutines that run them
}

// survive recovers and logs a panic. It is deferred around a callback.
func (k *callbacks) survive(name string) {
	p := recover()
	if p == nil {
		return
	}
	k.panics.Add(1)
	k.mu.Lock()
	leftOut, ok := k.limit.allow(time.Now())
	k.mu.Unlock()
	if ok {
		k.logger.LogAttrs(context.Background(), slog.LevelError, "idle: panic in a callback",
			slog.String("callback", name), slog.Any("panic", p), slog.Int("left_out", leftOut), slog.String("stack", string(debug.Stack())))
	}
}

// A logLimit limits how much is logged, to loggedASecond records.
type logLimit struct {
	second  time.Time // when the current second began
	logged  int       // in it
	leftOut int       // since the last record
}

const loggedASecond = 100

// allow reports whether a record may be logged, and how many were not since the last one.
func (l *logLimit) allow(now time.Time) (leftOut int, ok bool) {
	if now.Sub(l.second) >= time.Second {
		l.second, l.logged = now, 0
	}
	if l.logged == loggedASecond {
		l.leftOut++
		return 0, false
	}
	l.logged++
	leftOut, l.leftOut = l.leftOut, 0
	return leftOut, true
}

// guard runs a callback and recovers its panic.
func (k *callbacks) guard(name string, callback func()) {
	defer k.survive(name)
	callback()
}

// running counts goroutines.
type running struct {
	mu   sync.Mutex
	n    int
	none chan struct{} // closed when n is 0 again
}

// begin counts a goroutine that starts.
func (r *running) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n++; r.n == 1 {
		r.none = make(chan struct{})
	}
}

// end counts a goroutine that ends.
func (r *running) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n--; r.n == 0 {
		close(r.none)
	}
}

// run does some work on a goroutine that begin has counted. If a callback in it calls
// runtime.Goexit, another goroutine goes on.
func (r *running) run(work func()) {
	finished := false
	defer func() {
		if finished {
			r.end()
		} else {
			go r.run(work)
		}
	}()
	work()
	finished = true
}

// count returns the number of goroutines.
func (r *running) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n
}

// await waits until there are none, or until patience is done. It returns how many are left.
func (r *running) await(patience context.Context) (left int) {
	r.mu.Lock()
	left, none := r.n, r.none
	r.mu.Unlock()
	if left == 0 {
		return 0
	}
	select {
	case <-none:
		return 0
	case <-patience.Done():
		return r.count()
	}
}
