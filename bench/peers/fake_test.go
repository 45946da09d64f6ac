package main

import (
	"time"

	"github.com/idlewheel/idlewheel/bench/peers/contender"
)

// fake is a contender with faults: it expires connections after a part of the
// timeout, and every tenth never.
type fake struct {
	after   time.Duration
	expired func(int)
	timers  []*time.Timer
}

// fakeKind returns a fake that waits for a part of each timeout.
func fakeKind(part float64) contender.Kind {
	return contender.Kind{
		Name: "fake",
		New: func(timeout time.Duration, expired func(int)) (contender.Contender, error) {
			return &fake{after: time.Duration(part * float64(timeout)), expired: expired}, nil
		},
	}
}

func (f *fake) Open(n int) error {
	f.timers = make([]*time.Timer, n)
	return nil
}

func (f *fake) Arm(i int) error {
	switch {
	case f.after == 0: // not left to a goroutine, so that it is for sure
		f.expired(i)
	case i%10 != 0:
		f.timers[i] = time.AfterFunc(f.after, func() { f.expired(i) })
	}
	return nil
}

func (f *fake) Cancel(i int) {
	if f.timers[i] != nil {
		f.timers[i].Stop()
	}
}

func (f *fake) Touch(list []uint32) {
	for _, i := range list {
		if f.timers[i] != nil {
			f.timers[i].Reset(f.after)
		}
	}
}

func (f *fake) Close() {
	for i := range f.timers {
		f.Cancel(i)
	}
}
