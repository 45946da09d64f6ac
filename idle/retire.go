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
	if t.isEmpty() && t.refuse() {
		go t.finish(context.Background())
	}
}

// ended is called on the shard of a connection that is live no more, once that is
// counted. The last one to be ended finds all others counted, and sees the flag that
// Retire sets; or Retire, which sets the flag first, sees its count.
func (s *Shard) ended() {
	if t := s.tracker; t.retiring.Load() && s.counts.live() == 0 {
		t.closeIfEmpty()
	}
}

// isEmpty reports whether no connection is live. t.mu is held.
//
// A connection that is being tracked meanwhile is not missed. If Track does not see the
// flag of Retire, it has counted the connection before that was set, so it is seen here.
// If Track sees it, it waits for t.mu before it looks whether the shard is closed: see
// isClosed.
func (t *Tracker) isEmpty() bool {
	for _, of := range [][]*Shard{t.shards, t.loops} {
		for _, s := range of {
			if s.counts.live() > 0 {
				return false
			}
		}
	}
	return true
}

// isClosed reports whether s is closed to a connection that is counted already. It
// waits for somebody who looks whether the tracker is empty.
func (s *Shard) isClosed() bool {
	if t := s.tracker; t.retiring.Load() {
		t.mu.Lock()
		defer t.mu.Unlock()
	}
	return s.closed.Load()
}

// live returns how many connections are live, or more if some end meanwhile: what has
// ended is read first.
func (n *counts) live() uint64 {
	ended := n.gone.Load()
	for r := range n.timedOut {
		ended += n.timedOut[r].Load()
	}
	return n.tracked.Load() - ended
}
