package idlegnet

import (
	"cmp"
	"context"
	"errors"

	gneterrors "github.com/panjf2000/gnet/v2/pkg/errors"

	"github.com/idlewheel/idlewheel/idle"
)

var (
	errNotServing = errors.New("idlegnet: Shutdown was called before OnBoot, or the engine has stopped")
	errLeaving    = errors.New("idlegnet: Shutdown was called before")
)

// Shutdown shuts down the engine in good order. Connections are ended as d says (see
// [idle.Tracker.Drain]), and then the engine is stopped. New connections are closed at once. They
// aren't counted, and the wrapped handler isn't called for them, so clients that come back at
// once don't prolong the shutdown.
//
// If ctx is done first, the engine is stopped all the same, which closes the connections that are
// left, and Shutdown returns the error of ctx. Set d.ForceAfter, because otherwise Shutdown waits
// for a connection that is never idle until ctx is done.
//
// Shutdown's drain takes the place of one that is under way. If somebody begins another one
// meanwhile, Shutdown waits for that. If somebody cancels the drain, the engine is stopped at once.
//
// Shutdown fails if a value in d is invalid, or if another Shutdown is under way; then nothing is
// shut down. It waits for the loops, so it must not be called in a callback. The engine of a
// gnet.Client is not stopped; call its Stop afterwards. If ctx is done first, a client goes on as if
// Shutdown hadn't been called.
func (h *Handler) Shutdown(ctx context.Context, d idle.Drain) error {
	r := h.run.Load()
	switch {
	case r == nil:
		return errNotServing
	case !r.leaving.CompareAndSwap(false, true):
		return errLeaving
	case r.isOver():
		r.leaving.Store(false)
		return errNotServing
	}
	drain, err := r.tracker.Drain(d)
	if err != nil {
		r.leaving.Store(false)
		return err
	}
	for now := drain; now != nil && err == nil; now = r.tracker.Draining() {
		select {
		case <-now.Done():
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	switch stopped := r.engine.Stop(ctx); {
	case errors.Is(stopped, gneterrors.ErrEmptyEngine): // a client's, which goes on
		if err != nil {
			drain.Cancel()
			r.leaving.Store(false)
		}
		return err
	case errors.Is(stopped, gneterrors.ErrEngineInShutdown): // somebody else has stopped it
		return err
	default:
		return cmp.Or(err, stopped)
	}
}
