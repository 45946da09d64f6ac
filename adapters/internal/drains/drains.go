// Package drains starts and cancels the drains of adapters' Shutdowns.
package drains

import (
	"errors"

	"github.com/idlewheel/idlewheel/idle"
)

// TakeOver starts a drain. It gives up one that somebody has begun by hand, because a process that
// is told to end may have less time than that takes. The errors are those of [idle.Tracker.Drain];
// if d is invalid, the drain that was begun by hand goes on.
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
