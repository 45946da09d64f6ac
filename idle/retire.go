package idle

import "context"

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
