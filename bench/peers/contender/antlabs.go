package contender

import (
	"time"

	"github.com/antlabs/timer"
)

// antlabs is a wheel like the Linux kernel's former one. Its Reset locks the
// list that the timer is in, and then the one that it is to go to: when both are
// the same, as under a timeout of a minute they are for seconds on end, it waits
// for itself for ever.
type antlabs struct {
	timeout time.Duration
	expired func(int)
	wheel   timer.Timer
	timers  []timer.TimeNoder
}

func antlabsKind() Kind {
	return Kind{
		Name:   "antlabs",
		What:   "antlabs/timer, Stop and AfterFunc at every activity",
		Module: "github.com/antlabs/timer",
		Note:   "its Reset deadlocks when a timer stays in the same slot, so it cannot be used",
		New: func(timeout time.Duration, expired func(int)) (Contender, error) {
			w := timer.NewTimer()
			go w.Run()
			return &antlabs{timeout: timeout, expired: expired, wheel: w}, nil
		},
	}
}

func (a *antlabs) Open(n int) error {
	a.timers = make([]timer.TimeNoder, n)
	return nil
}

func (a *antlabs) Arm(i int) error {
	a.timers[i] = a.wheel.AfterFunc(a.timeout, func() { a.expired(i) })
	return nil
}

func (a *antlabs) Cancel(i int) { a.timers[i].Stop() }

func (a *antlabs) Touch(list []uint32) {
	for _, i := range list {
		a.timers[i].Stop()
		a.timers[i] = a.wheel.AfterFunc(a.timeout, func() { a.expired(int(i)) })
	}
}

func (a *antlabs) Close() { a.wheel.Stop() }
