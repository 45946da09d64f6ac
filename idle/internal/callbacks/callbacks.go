// Package callbacks runs functions of the user, which may panic, block, or call runtime.Goexit. It
// doesn't know what they are for.
package callbacks

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// A Runner runs callbacks, recovers their panics, and logs and counts these.
type Runner struct {
	Logger  *slog.Logger // to be set before the first callback
	Running Running      // goroutines that run callbacks

	panics atomic.Uint64
	mu     sync.Mutex // guards limit
	limit  LogLimit   // of panics
}

// Guard runs a callback and recovers its panic.
func (r *Runner) Guard(name string, callback func()) {
	defer r.Survive(name)
	callback()
}

// Survive recovers and logs a panic. It is deferred around a callback.
func (r *Runner) Survive(name string) {
	p := recover()
	if p == nil {
		return
	}
	r.panics.Add(1)
	r.mu.Lock()
	leftOut, ok := r.limit.Allow(time.Now())
	r.mu.Unlock()
	if ok {
		r.Logger.LogAttrs(context.Background(), slog.LevelError, "idle: panic in a callback",
			slog.String("callback", name), slog.Any("panic", p), slog.Int("left_out", leftOut), slog.String("stack", string(debug.Stack())))
	}
}

// Panics returns how many callbacks have panicked.
func (r *Runner) Panics() uint64 { return r.panics.Load() }

// A LogLimit limits how much is logged, to LoggedASecond records.
type LogLimit struct {
	second  time.Time // when the current second began
	logged  int       // in it
	leftOut int       // since the last record
}

// LoggedASecond is how many records a LogLimit allows each second.
const LoggedASecond = 100

// Allow reports whether a record may be logged, and how many were not since the last one.
func (l *LogLimit) Allow(now time.Time) (leftOut int, ok bool) {
	if now.Sub(l.second) >= time.Second {
		l.second, l.logged = now, 0
	}
	if l.logged == LoggedASecond {
		l.leftOut++
		return 0, false
	}
	l.logged++
	leftOut, l.leftOut = l.leftOut, 0
	return leftOut, true
}

// Running counts goroutines.
type Running struct {
	mu   sync.Mutex
	n    int
	none chan struct{} // closed when n is 0 again
}

// Begin counts a goroutine that starts.
func (r *Running) Begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n++; r.n == 1 {
		r.none = make(chan struct{})
	}
}

// End counts a goroutine that ends.
func (r *Running) End() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n--; r.n == 0 {
		close(r.none)
	}
}

// Run does some work on a goroutine that Begin has counted. If a callback in it calls
// runtime.Goexit, another goroutine goes on.
func (r *Running) Run(work func()) {
	finished := false
	defer func() {
		if finished {
			r.End()
		} else {
			go r.Run(work)
		}
	}()
	work()
	finished = true
}

// Count returns the number of goroutines.
func (r *Running) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n
}

// Await waits until there are none, or until patience is done. It returns how many are left.
func (r *Running) Await(patience context.Context) (left int) {
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
		return r.Count()
	}
}
