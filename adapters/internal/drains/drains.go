// Package drains starts and cancels the drains of adapters' Shutdowns.
package drains

import (
	"errors"

	"github.com/idlewheel/idlewheel/idle"
)

// TakeOver starts a drain for a process that has to end. If somebody has begun a drain by hand,
// TakeOver cancels it, because it may last longer than the process is given after SIGTERM. TakeOver
// returns the errors of [idle.Tracker.Drain]. If d is invalid, the drain begun by hand goes on.
func TakeOver(t *idle.Tracker, d idle.Drain) (*idle.Operation, error) {
	o, err := t.Drain(d)
	if !errors.Is(err, idle.ErrDraining) {
		return o, err
	}
	for _, o := range t.Operations() {
		if o.Reason() == idle.ReasonDrain {
			GiveUp(o)
		}
	}
	return t.Drain(d)
}

// GiveUp cancels a drain and waits until it has finished, because the next one is refused before
// that. It doesn't wait for callbacks.
func GiveUp(o *idle.Operation) {
	o.Cancel()
	<-o.Done()
}
