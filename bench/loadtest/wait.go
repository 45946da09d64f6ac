package main

import (
	"context"
	"time"
)

// What a machine that cannot keep up is given, after the last deadline.
const (
	patience    = 2 * time.Second // since the tracker last closed one
	allPatience = 2 * time.Minute // in all
	pollTime    = 20 * time.Millisecond
)

// awaitEnd returns when the run is over: its duration has passed, and all of
// the doomed are closed, or nothing seems to close them any more.
func awaitEnd(ctx context.Context, cfg config, start time.Time, o *oracle, doomed int64) {
	if !sleep(ctx, cfg.duration-time.Since(start)) {
		return
	}
	over := time.Now()
	closed, since := o.doomed.Load(), over
	for closed < doomed && time.Since(since) < o.patience() && time.Since(over) < allPatience {
		if !sleep(ctx, pollTime) {
			return
		}
		if n := o.doomed.Load(); n != closed {
			closed, since = n, time.Now()
		}
	}
}

// patience is how long nothing need be closed though something is due. A
// tracker that is so far behind already is as far behind with every ping and
// with every answer.
func (o *oracle) patience() time.Duration { return patience + o.allowance + 2*o.late.Most() }

// sleep pauses for d and reports whether it was not interrupted.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
