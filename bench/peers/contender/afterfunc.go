package contender

import (
	"time"

	nbio "github.com/lesismal/nbio/timer"
)

// afterFunc has a time.Timer a connection, which is reset at every activity.
type afterFunc struct {
	timeout time.Duration
	expired func(int)
	start   func(d time.Duration, f func()) *time.Timer
	timers  []*time.Timer
}

func afterFuncKind() Kind {
	return Kind{
		Name: "AfterFunc",
		What: "time.AfterFunc, Reset at every activity",
		New: func(timeout time.Duration, expired func(int)) (Contender, error) {
			return &afterFunc{timeout: timeout, expired: expired, start: time.AfterFunc}, nil
		},
	}
}

func nbioKind() Kind {
	return Kind{
		Name:   "nbio",
		What:   "nbio's timer, which wraps time.AfterFunc, Reset at every activity",
		Module: "github.com/lesismal/nbio",
		New: func(timeout time.Duration, expired func(int)) (Contender, error) {
			return &afterFunc{timeout: timeout, expired: expired, start: nbio.New("peers").AfterFunc}, nil
		},
	}
}

func (a *afterFunc) Open(n int) error {
	a.timers = make([]*time.Timer, n)
	return nil
}

func (a *afterFunc) Arm(i int) error {
	a.timers[i] = a.start(a.timeout, func() { a.expired(i) })
	return nil
}

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
