package contender

import (
	"sync"
	"time"
	"unsafe"

	"github.com/idlewheel/idlewheel/wheel"
)

// movedWheel is idlewheel's wheel used as others use theirs: behind a mutex,
// the timer moved at every activity. What it costs more than idlewheel is what
// not moving saves.
type movedWheel struct {
	timeout time.Duration
	expired func(int)
	clock   ticks
	stop    chan struct{}

	mu    sync.Mutex
	wheel wheel.Wheel
	conns []wheelConn
	due   []int // scratch of tick
}

type wheelConn struct {
	timer    wheel.Timer // first, for the conversion back
	deadline uint64
	index    int
}

func newMovedWheel(n int, timeout time.Duration, expired func(int)) (Contender, error) {
	w := &movedWheel{timeout: timeout, expired: expired, clock: ticks{time.Now()}, stop: make(chan struct{}), conns: make([]wheelConn, n)}
	for i := range w.conns {
		w.conns[i].index = i
	}
	go every(Tick, w.stop, w.tick)
	return w, nil
}

func (w *movedWheel) Arm(i int) { w.move(&w.conns[i]) }

func (w *movedWheel) Touch(list []uint32) {
	for _, i := range list {
		w.move(&w.conns[i])
	}
}

func (w *movedWheel) move(c *wheelConn) {
	deadline := w.clock.after(w.timeout)
	w.mu.Lock()
	c.deadline = deadline
	w.wheel.Schedule(&c.timer, deadline)
	w.mu.Unlock()
}

func (w *movedWheel) Cancel(i int) {
	w.mu.Lock()
	w.wheel.Cancel(&w.conns[i].timer)
	w.mu.Unlock()
}

func (w *movedWheel) tick() {
	for _, i := range w.takeDue() {
		w.expired(i)
	}
}

func (w *movedWheel) takeDue() []int {
	now := w.clock.now()
	w.due = w.due[:0]
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wheel.Advance(now)
	for t := w.wheel.Pop(); t != nil; t = w.wheel.Pop() {
		c := (*wheelConn)(unsafe.Pointer(t))
		if c.deadline > now {
			w.wheel.Schedule(t, c.deadline)
			continue
		}
		w.due = append(w.due, c.index)
	}
	return w.due
}

func (w *movedWheel) Close() { close(w.stop) }

// ticks is the clock of the contenders that are written here and have one.
type ticks struct{ start time.Time }

func (k ticks) now() uint64 { return uint64(time.Since(k.start) / Tick) }

// after returns the tick that begins no sooner than d from now: the present
// tick has partly passed, so one more is needed.
func (k ticks) after(d time.Duration) uint64 { return k.now() + uint64((d+Tick-1)/Tick) + 1 }

// every calls do once a tick until stop is closed.
func every(tick time.Duration, stop <-chan struct{}, do func()) {
	t := time.NewTicker(tick)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return
		case <-t.C:
			do()
		}
	}
}
