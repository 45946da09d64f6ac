package contender

import (
	"time"

	"github.com/RussellLuo/timingwheel"
)

// timingWheel is the hierarchical wheel of Kafka's purgatory, in Go, as the most
// used of the wheels that a program can import. Its timers cannot be reset, so they
// are stopped and started anew at every activity.
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
