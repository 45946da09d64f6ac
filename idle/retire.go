package idle

import "context"

// Retire has the tracker close itself when no connection is live: at once if none
// is, and else when the last one has ended, on whatever shard. It returns at once.
// Until the tracker closes, connections can be tracked; after that, Track fails with
// [ErrClosed], and so does [Tracker.Close]. What has timed out but was not closed yet
// is reaped then, as by Close; the counts stay.
//
// It may be called by any goroutine, also in a callback. To call it again, or after
// Close, does nothing. Close, as long as it comes before the last connection ends,
// still ends the tracker immediately.
func (t *Tracker) Retire() {
	t.mustBeMade()
	t.retiring.Store(true)
	t.closeIfEmpty()
}

// closeIfEmpty closes the tracker if no connection is live. It does not wait, as it is
// called by who has ended a connection, with the shard's lock or inside a callback.
// Nobody waits for the callbacks that are running, so they may take their time.
func (t *Tracker) closeIfEmpty() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isEmpty() && t.markClosed() {
		go t.finish(context.Background())
	}
}
