package contender

import (
	"time"

	"github.com/lesismal/nbio/timer"
)

func nbioKind() Kind {
	return Kind{
		Name:   "nbio",
		What:   "nbio's timer, which wraps time.AfterFunc, Reset at every activity",
		Module: "github.com/lesismal/nbio",
		New: func(timeout time.Duration, expired func(int)) (Contender, error) {
			return &afterFunc{timeout: timeout, expired: expired, start: timer.New("peers").AfterFunc}, nil
		},
	}
}
