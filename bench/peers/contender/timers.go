package contender

import (
	"sync/atomic"
	"time"

	"github.com/RussellLuo/timingwheel"
)

// afterFunc has a time.Timer a connection, which is reset at every activity.
type afterFunc struct {
	timeout time.Duration
	expired func(int)
	timers  []*time.Timer
}

func newAfterFunc(n int, timeout time.Duration, expired func(int)) (Contender, error) {
	return &afterFunc{timeout, expired, make([]*time.Timer, n)}, nil
}

func (a *afterFunc) Arm(i int) { a.timers[i] = time.AfterFunc(a.timeout, func() { a.expired(i) }) }

func (a *afterFunc) Cancel(i int) { a.timers[i].Stop() }

func (a *afterFunc) Touch(list []uint32) {
	for _, i := range list {
		a.timers[i].Reset(a.timeout)
	}
}

func (a *afterFunc) Close() {
	for _, t := range a.timers {
		if t != nil {
			t.Stop()
		}
	}
}

// lazy is what can be done about the cost of Reset with the standard library
// alone: an activity notes the time, and a timer that fires too soon because of
// it goes on for the rest.
type lazy struct {
	timeout time.Duration
	expired func(int)
	start   time.Time
	conns   []lazyConn
}

type lazyConn struct {
	active atomic.Int64 // since start
	timer  atomic.Pointer[time.Timer]
}

func newLazy(n int, timeout time.Duration, expired func(int)) (Contender, error) {
	return &lazy{timeout, expired, time.Now(), make([]lazyConn, n)}, nil
}

func (l *lazy) Arm(i int) {
	l.Touch([]uint32{uint32(i)})
	l.conns[i].timer.Store(time.AfterFunc(l.timeout, func() { l.fire(i) }))
}

func (l *lazy) fire(i int) {
	c := &l.conns[i]
	if silence := time.Since(l.start) - time.Duration(c.active.Load()); silence < l.timeout {
		c.timer.Load().Reset(l.timeout - silence)
		return
	}
	l.expired(i)
}

func (l *lazy) Cancel(i int) { l.conns[i].timer.Load().Stop() }

func (l *lazy) Touch(list []uint32) {
	for _, i := range list {
		l.conns[i].active.Store(int64(time.Since(l.start)))
	}
}

func (l *lazy) Close() {
	for i := range l.conns {
		if t := l.conns[i].timer.Load(); t != nil {
			t.Stop()
		}
	}
}

// timingWheel is the hierarchical wheel of Kafka's purgatory, in Go, as the most
// used of the wheels that a program can import. Its timers cannot be reset, so they
// are stopped and started again at every activity.
type timingWheel struct {
	timeout time.Duration
	expired func(int)
	wheel   *timingwheel.TimingWheel
	timers  []*timingwheel.Timer
}

func newTimingWheel(n int, timeout time.Duration, expired func(int)) (Contender, error) {
	w := timingwheel.NewTimingWheel(Tick, 64)
	w.Start()
	return &timingWheel{timeout, expired, w, make([]*timingwheel.Timer, n)}, nil
}

func (w *timingWheel) Arm(i int) { w.timers[i] = w.wheel.AfterFunc(w.timeout, func() { w.expired(i) }) }

func (w *timingWheel) Cancel(i int) { w.timers[i].Stop() }

func (w *timingWheel) Touch(list []uint32) {
	for _, i := range list {
		w.timers[i].Stop()
		w.timers[i] = w.wheel.AfterFunc(w.timeout, func() { w.expired(int(i)) })
	}
}

func (w *timingWheel) Close() { w.wheel.Stop() }
