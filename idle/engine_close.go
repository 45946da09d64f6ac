package idle

import (
	"context"
	"fmt"
	"slices"
)

// Close ends the driver and the tracking of all connections on the tracker's own
// shards. It returns the owners of those that were live. They are open, and the
// caller has to close them. Connections that have timed out but are not closed
// yet are reaped. Connections of event loops are no longer timed out; end their
// tracking with [Shard.Close].
//
// Close waits for running callbacks, but no longer than Options.ReapDelay, and then
// fails with an error that says how many are left, though the tracker is closed. A callback
// that calls Close is one of them; [Tracker.CloseWhenEmpty] does not wait. A connection whose
// OnTimeout is still running then is returned all the same. Any later call fails with [ErrClosed].
func (t *Tracker) Close() (live []any, err error) {
	t.mustBeMade()
	if !t.tryClose() {
		return nil, ErrClosed
	}
	patience, stopWaiting := context.WithTimeout(context.Background(), t.opts.ReapDelay)
	defer stopWaiting()
	return t.finish(patience)
}

// Done returns a channel that is closed when the tracker is closed, by [Tracker.Close] or
// after [Tracker.CloseWhenEmpty]. Callbacks may still be running then.
func (t *Tracker) Done() <-chan struct{} {
	t.mustBeMade()
	return t.stop
}

// finish is the part of Close after tryClose.
func (b *base) finish(patience context.Context) (live []any, err error) {
	close(b.stop)
	left := b.awaitDriver(patience) + b.calls.running.await(patience)
	for _, s := range b.own {
		live = append(live, s.takeAll()...)
	}
	if left == 0 {
		left = b.calls.running.await(patience)
	}
	left += b.ends.running.await(patience)
	if left > 0 {
		return live, fmt.Errorf("idle: Close: callbacks still running after %v: %d; one of them has called Close, or blocks", b.opts.ReapDelay, left)
	}
	return live, nil
}

// tryClose closes all shards to new connections. It returns false if they were
// already closed.
func (b *base) tryClose() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.markClosed()
}

// markClosed is tryClose with b.mu held.
func (b *base) markClosed() bool {
	if b.closed {
		return false
	}
	b.closed = true
	for _, of := range [][]*Shard{b.own, b.loops} {
		for _, s := range of {
			s.closed.Store(true)
			s.walks.close()
		}
	}
	return true
}

// awaitDriver waits for the driver. It returns 1 if the driver is still in a
// callback, and 0 otherwise.
func (b *base) awaitDriver(patience context.Context) int {
	select {
	case <-b.stopped:
		return 0
	case <-patience.Done():
		return 1
	}
}

// takeAll ends the tracking of all connections. It returns the owners of those that were
// live, and reaps the others. The shard must be closed.
func (s *Shard) takeAll() (owners []any) {
	left := s.mail.close()
	for c, p := s.takeOne(); c != nil; c, p = s.takeOne() {
		if p.owner == nil {
			s.reap(c)
			continue
		}
		s.counts.gone.Add(1)
		s.counts.part(&p, s.clock)
		s.leave(c)
		s.tracker.ends.part(p)
		owners = append(owners, p.owner)
	}
	for _, task := range left {
		task()
	}
	return owners
}

// takeOne ends the tracking of a connection. It returns nil if none is left. If the
// connection has timed out, it is only taken out of the shard, and the end record has no owner.
func (s *Shard) takeOne() (c *Conn, p endRecord) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if c = s.conns.last(); c == nil {
		return nil, p
	}
	s.forget(c)
	if c.Live() {
		p = c.endRecord()
		p.owner = c.owner
		c.state.end()
	}
	return c, p
}

// Close ends the tracking of all connections of a loop's shard. It returns the
// owners of those that were live, as [Tracker.Close] does. The tracker forgets
// the shard but keeps its counts. Close must be called on the loop, or after the
// loop has ended. It fails with [ErrShardClosed] if the shard is already closed,
// and with another error inside a callback of the shard. It panics if the shard
// belongs to no loop.
func (s *Shard) Close() (live []any, err error) {
	if !s.loop {
		panic("idle: Close of a shard without an event loop; close its tracker")
	}
	if s.passing {
		return nil, errInPass
	}
	if !s.tracker.forget(s) {
		return nil, ErrShardClosed
	}
	live = s.takeAll()
	s.tracker.keepCounts(s)
	s.checkEmpty()
	return live, nil
}

// forget removes a loop's shard, but for its counts, which it keeps until keepCounts. It
// reports whether b had it.
func (b *base) forget(s *Shard) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.loops, s)
	if i < 0 {
		return false
	}
	s.closed.Store(true)
	b.clock.Detach(&s.now)
	b.leaving = append(b.leaving, s)
	b.loops = slices.Delete(slices.Clone(b.loops), i, i+1) // a clone, as the driver may be ranging over the old slice
	s.walks.close()
	return true
}

// keepCounts adds the counts of a forgotten shard to b.past.
func (b *base) keepCounts(s *Shard) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leaving = slices.DeleteFunc(b.leaving, func(one *Shard) bool { return one == s })
	s.counts.addTo(&b.past)
}

// CloseWhenEmpty makes the tracker close itself when no connection is live: at once if
// there is none, and otherwise when the last one ends, on any shard. CloseWhenEmpty does
// not wait for that.
//
// Until the tracker closes, connections may still be tracked. Afterwards Track
// and [Tracker.Close] fail with [ErrClosed]. As with Close, connections that have
// timed out but are not closed yet are then reaped, and Stats keeps the counts.
//
// CloseWhenEmpty may be called from any goroutine, callbacks included. Calling it again,
// or after Close, has no effect. Close may still be called before the last
// connection ends, and ends the tracker at once.
func (t *Tracker) CloseWhenEmpty() {
	t.mustBeMade()
	t.retiring.Store(true)
	t.watched.Store(true)
	t.closeIfEmpty()
}

// closeIfEmpty closes the tracker if no connection is live. It must not wait: its
// caller may hold a shard's lock or be in a callback. So finish runs on a
// goroutine of its own, and waits for callbacks without a limit.
func (b *base) closeIfEmpty() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.isEmpty() && b.markClosed() {
		go b.finish(context.Background())
	}
}
