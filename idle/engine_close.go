package idle

import (
	"context"
	"fmt"
	"slices"
)

// Close ends the driver and the tracking of all connections on the tracker's own shards. It returns
// the owners of the live connections. These are still open, and the caller has to close them. A
// [Conn.End] that has begun is carried out first. Connections of event loops no longer time out; end
// their tracking with [Shard.Close].
//
// Close waits for running callbacks, for a second at most. So connections that have timed out are
// usually closed when it returns. If callbacks are still running then, it returns an error that
// says how many. The tracker is closed all the same, and connections whose OnTimeout is running
// are among those returned. A callback that calls Close
// waits for itself; [Tracker.CloseWhenEmpty] doesn't wait. Any later call fails with [ErrClosed].
func (t *Tracker) Close() (live []any, err error) {
	t.mustBeMade()
	if !t.tryClose() {
		return nil, ErrClosed
	}
	wait, stopWaiting := context.WithTimeout(context.Background(), patience)
	defer stopWaiting()
	return t.finish(wait)
}

// Done returns a channel that is closed when the tracker is closed, by [Tracker.Close] or
// after [Tracker.CloseWhenEmpty]. Callbacks may still be running then.
func (t *Tracker) Done() <-chan struct{} {
	t.mustBeMade()
	return t.stop
}

// finish is the part of Close after tryClose.
func (t *Tracker) finish(wait context.Context) (live []any, err error) {
	close(t.stop)
	left := 0
	if !t.stopDriver(wait) {
		left = 1
	}
	for _, s := range t.own {
		s.runLeft(true) // before the wait, so that OnEnd has its time
	}
	left += t.calls.Running.Await(wait)
	for _, s := range t.own {
		live = append(live, s.takeAll()...)
	}
	left += t.ends.Running.Await(wait)
	if left > 0 {
		return live, fmt.Errorf("idle: Close: callbacks still running after %v: %d; one of them has called Close, or blocks", patience, left)
	}
	return live, nil
}

// tryClose closes all shards to new connections. It returns false if they were
// already closed.
func (t *Tracker) tryClose() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range slices.Concat(t.own, t.loops) {
		s.mu.Lock()
		defer s.mu.Unlock()
	}
	return t.markClosed()
}

// markClosed is tryClose with t.mu held, and mu of all shards.
func (t *Tracker) markClosed() bool {
	if t.closed {
		return false
	}
	t.closed = true
	left := 0
	for _, s := range slices.Concat(t.own, t.loops) {
		left += len(s.conns.all)
		s.closed.Store(true)
		s.visits.close()
	}
	if d := t.draining.Load(); d != nil {
		d.finish(left)
	}
	return true
}

// takeAll ends the tracking of all connections, and returns their owners. The shard must be closed.
func (s *Shard) takeAll() (owners []any) {
	s.runLeft(true)
	for c, p := s.takeOne(); c != nil; c, p = s.takeOne() {
		s.report(c, &p)
		owners = append(owners, c.owner)
	}
	s.runLeft(false)
	return owners
}

// takeOne ends the tracking of a connection. It returns nil if none is left.
func (s *Shard) takeOne() (c *Conn, p endRecord) {
	s.lock()
	defer s.unlock()
	if c = s.conns.last(); c == nil {
		return nil, p
	}
	p.limits = c.limits()
	p.state, _ = c.state.stop()
	s.leave(c, &p)
	return c, p
}

// Close ends the tracking of all connections of a loop's shard. It returns the owners of the live
// ones, like [Tracker.Close]. The tracker forgets the shard but keeps its counts. Close must be
// called on the loop, or after the loop has ended. It fails with [ErrShardClosed] if the shard is
// already closed, and with another error inside a callback of the shard. It panics if the shard
// belongs to no loop.
func (s *Shard) Close() (live []any, err error) {
	if !s.loop {
		panic("idle: Close of a shard without an event loop; close its tracker")
	}
	if s.passing {
		return nil, errInPass
	}
	if !s.tracker.shut(s) {
		return nil, ErrShardClosed
	}
	s.passing = true
	defer func() { s.passing = false }()
	live = s.takeAll()
	s.tracker.forget(s)
	return live, nil
}

// shut closes a loop's shard to new connections. It returns false if t has forgotten it.
func (t *Tracker) shut(s *Shard) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.Contains(t.loops, s) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed.Store(true)
	s.visits.close()
	t.clock.Detach(&s.now)
	return true
}

// forget removes a loop's shard, but keeps its counts.
func (t *Tracker) forget(s *Shard) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.loops, s); i >= 0 {
		t.loops = slices.Delete(slices.Clone(t.loops), i, i+1) // a clone, because the driver may be ranging over the old slice
		s.note(func(st *Stats) { t.past.Add(*st) })
	}
}

// CloseWhenEmpty makes the tracker close itself when no connection is live: at once if
// there is none, and otherwise when the last one ends, on any shard. CloseWhenEmpty does
// not wait for that.
//
// Until the tracker closes, connections may still be tracked. Afterwards Track and
// [Tracker.Close] fail with [ErrClosed]. Stats keeps the counts.
//
// CloseWhenEmpty may be called from any goroutine, callbacks included. Calling it again,
// or after Close, has no effect. Close may still be called before the last
// connection ends, and ends the tracker at once.
func (t *Tracker) CloseWhenEmpty() {
	t.mustBeMade()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.retiring.Store(true)
	t.checkEmpty()
}

// checkEmpty ends a drain if no connection is live, and closes the tracker if it's retiring. All shards are
// locked when it has looked, so none has a connection when it is closed. The last connection of a shard calls checkEmpty
// when it leaves. t.mu must be held.
//
// Its caller may be in a callback, so finish runs on a goroutine of its own, and waits for callbacks without a limit.
func (t *Tracker) checkEmpty() {
	for _, s := range slices.Concat(t.own, t.loops) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.conns.all) > 0 {
			return
		}
	}
	if d := t.draining.Load(); d != nil {
		d.finish(0)
	}
	if t.retiring.Load() && t.markClosed() {
		go t.finish(context.Background())
	}
}
