package idle

import (
	"context"
	"fmt"
	"slices"
)

// Close ends the driver, and the tracking of all connections on the tracker's
// own shards. It returns those that were live: their owners, or what an owner that
// is an [Unwrapper] wraps. What has timed out but was not closed yet is reaped.
// Connections on loops are left to [Shard.Close], but are looked at no more.
//
// It waits for the callbacks that are running, though no longer than
// Options.Linger, after which an error says how many are left; connections of
// which a Keep is running are not returned then. It fails with [ErrInCallback]
// if called by a callback, of whatever tracker, and with [ErrClosed] the second
// time.
func (t *Tracker) Close() (live []any, err error) {
	t.mustBeMade()
	if inCallback() {
		return nil, ErrInCallback
	}
	if !t.shut() {
		return nil, ErrClosed
	}
	patience, stopWaiting := context.WithTimeout(context.Background(), t.opts.Linger)
	defer stopWaiting()
	return t.finish(patience)
}

// finish is Close after shut.
func (t *Tracker) finish(patience context.Context) (live []any, err error) {
	close(t.stop)
	<-t.stopped
	left := t.awaitCallbacks(patience)
	for _, s := range t.shards {
		live = append(live, s.empty()...)
	}
	if left == 0 {
		left = t.awaitCallbacks(patience)
	}
	if left > 0 {
		return live, fmt.Errorf("idle: Close: callbacks still running after %v: %d", t.opts.Linger, left)
	}
	return live, nil
}

// shut closes all shards to new connections, and reports whether it was the
// first to do so.
func (t *Tracker) shut() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.refuse()
}

// refuse is shut with t.mu held.
func (t *Tracker) refuse() bool {
	if t.closed {
		return false
	}
	t.closed = true
	for _, s := range t.shards {
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
	case <-t.callbacks.wait():
		return 0
	case <-patience.Done():
		return t.callbacks.count()
	}
}

// Close ends the tracking of all connections of a loop's shard, and returns those
// that were live, as [Tracker.Close] does. It must be called on the loop, or after its
// end; the tracker forgets the shard, and keeps its counts. It fails with
// [ErrShardClosed] the second time.
func (s *Shard) Close() (live []any, err error) {
	if s.execute == nil {
		panic("idle: Close of a shard that the tracker drives; close the tracker")
	}
	if inCallback() {
		return nil, ErrInCallback
	}
	if !s.tracker.forget(s) {
		return nil, ErrShardClosed
	}
	live = s.empty()
	s.tracker.keepCounts(s)
	s.ended()
	return live, nil
}

// empty takes all connections out of the wheel, and returns those that were live;
// the others are reaped. The shard must be closed.
func (s *Shard) empty() (handed []any) {
	s.lock.Lock()
	var left []job
	for t := s.wheel.PopAny(); t != nil; t = s.wheel.PopAny() {
		c := connOf(t)
		left = append(left, job{c: c, owner: c.owner, state: c.state.Load(), event: reap})
	}
	s.lock.Unlock()
	for _, j := range left {
		if j.state&expired != 0 {
			s.reap(j)
		} else if was, ok := j.c.state.end(); ok && was&live != 0 {
			s.counts.gone.Add(1)
			handed = append(handed, s.tracker.unwrap(j.owner))
		}
	}
	return handed
}

// unwrap returns what users know o as.
func (t *Tracker) unwrap(o Owner) (known any) {
	known = o
	if wrapper, ok := o.(Unwrapper); ok {
		t.guard("Unwrap", func() { known = wrapper.Unwrap() })
	}
	return known
}

// forget drops a loop's shard, and reports whether the tracker had it.
func (t *Tracker) forget(s *Shard) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.loops, s)
	if i < 0 {
		return false
	}
	s.closed.Store(true)
	t.clock.detach(&s.coarse)
	t.loops = slices.Delete(slices.Clone(t.loops), i, i+1) // the driver may be reading the old one
	return true
}

// keepCounts keeps the counts of a shard that was forgotten.
func (t *Tracker) keepCounts(s *Shard) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.counts.addTo(&t.past)
}
