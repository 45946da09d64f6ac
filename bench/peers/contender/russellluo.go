package contender

import (
	"time"

	"github.com/RussellLuo/timingwheel"
)

// russellLuo is the hierarchical wheel of Kafka's purgatory, in Go.
type russellLuo struct {
	timeout time.Duration
	expired func(int)
	wheel   *timingwheel.TimingWheel
	timers  []*timingwheel.Timer
}

const russellLuoSlots = 64

func russellLuoKind() Kind {
	return Kind{
		Name:   "timingwheel",
		What:   "RussellLuo/timingwheel, Stop and AfterFunc at every activity",
		Module: "github.com/RussellLuo/timingwheel",
		Note:   "has no Reset",
		New: func(timeout time.Duration, expired func(int)) (Contender, error) {
			w := timingwheel.NewTimingWheel(Tick, russellLuoSlots)
			w.Start()
			return &russellLuo{timeout: timeout, expired: expired, wheel: w}, nil
		},
	}
}

func (r *russellLuo) Open(n int) error {
	r.timers = make([]*timingwheel.Timer, n)
	return nil
}

func (r *russellLuo) Arm(i int) error {
	r.timers[i] = r.wheel.AfterFunc(r.timeout, func() { r.expired(i) })
	return nil
}

func (r *russellLuo) Cancel(i int) { r.timers[i].Stop() }

func (r *russellLuo) Touch(list []uint32) {
	for _, i := range list {
		r.timers[i].Stop()
		r.timers[i] = r.wheel.AfterFunc(r.timeout, func() { r.expired(int(i)) })
	}
}

func (r *russellLuo) Close() { r.wheel.Stop() }
