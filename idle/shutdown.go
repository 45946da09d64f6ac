package idle

import (
	"context"
	"fmt"
)

// Close ends the driver, and the tracking of all connections on the tracker's
// own shards. It returns the owners of those that were live. What has timed out but was
// not closed yet is reaped.
// Connections on loops are left to [Shard.Close], but are looked at no more.
//
// It waits for the callbacks that are running, though no longer than
// Options.Linger, after which an error says how many are left. A callback should not
// call it, as it waits for that one too. Connections of which an OnTimeout is running
// are not returned then. It fails with [ErrClosed] the second time.
func (t *Tracker) Close() (live []any, err error) {
	t.mustBeMade()
	if !t.tryClose() {
		return nil, ErrClosed
	}
	patience, stopWaiting := context.WithTimeout(context.Background(), t.opts.Linger)
	defer stopWaiting()
	return t.finish(patience)
}

// finish is Close after shut.
func (t *Tracker) finish(patience context.Context) (live []any, err error) {
	close(t.stop)
	left := t.awaitDriver(patience) + t.awaitCallbacks(patience)
	for _, s := range t.own {
		live = append(live, s.takeAll()...)
	}
	if left == 0 {
		left = t.awaitCallbacks(patience)
	}
	if left > 0 {
		return live, fmt.Errorf("idle: Close: callbacks still running after %v: %d; a callback must not call Close, or block for so long", t.opts.Linger, left)
	}
	return live, nil
}

// shut closes all shards to new connections, and reports whether it was the
// first to do so.
func (t *Tracker) tryClose() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.markClosed()
}

// refuse is shut; t.mu is held.
func (t *Tracker) markClosed() bool {
	if t.closed {
		return false
	}
	t.closed = true
	for _, s := range t.own {
		s.closed.Store(true)
	}
	for _, s := range t.loops {
		s.closed.Store(true)
	}
	return true
}

// awaitCallbacks returns how many callbacks are running after all.
func (t *Tracker) awaitCallbacks(patience context.Context) int {
	select {
	case <-t.calls.running.wait():
		return 0
	case <-patience.Done():
		return t.calls.running.count()
	}
}

// awaitDriver returns 1 if the driver is in a callback after all.
func (t *Tracker) awaitDriver(patience context.Context) int {
	select {
	case <-t.stopped:
		return 0
	case <-patience.Done():
		return 1
	}
}

// empty takes all connections out of the wheel, and returns the owners of those that
// were live; the others are reaped. The shard must be closed.
func (s *Shard) takeAll() (owners []any) {
	s.lock.Lock()
	var left []job
	for t := s.wheel.PopAny(); t != nil; t = s.wheel.PopAny() {
		left = append(left, connOf(t).job())
	}
	s.lock.Unlock()
	for _, j := range left {
		if j.state&expired != 0 {
			s.reap(j)
		} else if was, ok := j.c.state.end(); ok && was&live != 0 {
			s.counts.gone.Add(1)
			owners = append(owners, j.owner)
		}
	}
	return owners
}

// Close ends the tracking of all connections of a loop's shard, and returns the
// owners of those that were live, as [Tracker.Close] does. It must be called on the
// loop, or after its end; the tracker forgets the shard, and keeps its counts. It
// fails with [ErrShardClosed] the second time, and inside a callback of the shard.
func (s *Shard) Close() (live []any, err error) {
	if !s.loop {
		panic("idle: Close of a shard that the tracker drives; close the tracker")
	}
	if s.passing {
		return nil, errInPass
	}
	if !s.tracker.forget(s) {
		return nil, ErrShardClosed
	}
	live = s.takeAll()
	s.tracker.keepCounts(s)
	if s.retiring.Load() {
		s.wentAway()
	}
	return live, nil
}
