package contender

import (
	"time"

	"github.com/RussellLuo/timingwheel"
	antlabs "github.com/antlabs/timer"
)

// restarted has a timer a connection, of a wheel whose timers cannot be reset: it
// is stopped and started anew at every activity.
type restarted[T interface{ Stop() bool }] struct {
	timeout time.Duration
	expired func(int)
	start   func(d time.Duration, f func()) T
	stop    func() // the wheel
	timers  []T
}

// russellLuoKind is the hierarchical wheel of Kafka's purgatory, in Go.
func russellLuoKind() Kind {
	const slots = 64
	return Kind{
		Name:   "timingwheel",
		What:   "RussellLuo/timingwheel, Stop and AfterFunc at every activity",
		Module: "github.com/RussellLuo/timingwheel",
		Note:   "has no Reset",
		New: func(timeout time.Duration, expired func(int)) (Contender, error) {
			w := timingwheel.NewTimingWheel(Tick, slots)
			w.Start()
			return &restarted[*timingwheel.Timer]{timeout: timeout, expired: expired, start: w.AfterFunc, stop: w.Stop}, nil
		},
	}
}

// antlabsKind is a wheel like the Linux kernel's former one. Its Reset locks the
// list that the timer is in, and then the one that it is to go to: when both are
// the same, as under a timeout of a minute they are for seconds on end, it waits
// for itself for ever.
func antlabsKind() Kind {
	return Kind{
		Name:   "antlabs",
		What:   "antlabs/timer, Stop and AfterFunc at every activity",
		Module: "github.com/antlabs/timer",
		Note:   "its Reset deadlocks when a timer stays in the same slot, so it cannot be used",
		New: func(timeout time.Duration, expired func(int)) (Contender, error) {
			w := antlabs.NewTimer()
			go w.Run()
			return &restarted[antlabs.TimeNoder]{timeout: timeout, expired: expired, start: w.AfterFunc, stop: w.Stop}, nil
		},
	}
}

func (r *restarted[T]) Open(n int) error {
	r.timers = make([]T, n)
	return nil
}

func (r *restarted[T]) Arm(i int) error {
	r.timers[i] = r.start(r.timeout, func() { r.expired(i) })
	return nil
}

func (r *restarted[T]) Cancel(i int) { r.timers[i].Stop() }

func (r *restarted[T]) Touch(list []uint32) {
	for _, i := range list {
		r.timers[i].Stop()
		r.timers[i] = r.start(r.timeout, func() { r.expired(int(i)) })
	}
}

func (r *restarted[T]) Close() { r.stop() }
