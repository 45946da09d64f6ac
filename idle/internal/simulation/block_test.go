package simulation

import (
	"slices"
	"time"
)

// A simBlock says when the loop of a home was blocked: something else on it did not return.
// Nothing happens to its connections then. All others have what they are promised.
type simBlock struct {
	past []stop
	free chan struct{} // closed when the loop goes on; nil unless it is blocked
	at   time.Duration // when that began
}

// isBlocked reports whether the loop of h is blocked.
func (h *home) isBlocked() bool { return h.block.free != nil }

// isBlocked reports whether some loop is blocked.
func (w *world) isBlocked() bool { return slices.ContainsFunc(w.homes, (*home).isBlocked) }

// blocked returns for how long the loop of h was blocked since an instant, and a tick each
// time, for what it has missed.
func (h *home) blocked(since time.Duration) (sum time.Duration) {
	for _, s := range h.block.past {
		if s.at+s.took >= since {
			sum += s.took
		}
	}
	return sum
}

// blocked is for how long all loops were.
func (w *world) blocked(since time.Duration) (sum time.Duration) {
	for _, h := range w.homes {
		sum += h.blocked(since)
	}
	return sum
}

// blockLoop has the loop of h block, for a while or until this is called again.
func (w *world) blockLoop(h *home, pick uint64) {
	if h.loop == nil {
		return
	}
	w.mu.Lock()
	if h.isBlocked() {
		w.mu.Unlock()
		w.unblock(h)
		return
	}
	w.checkAll()
	free := make(chan struct{})
	h.block.free, h.block.at = free, w.now()
	w.happened["blocks"]++
	w.moveAll(h)
	w.mu.Unlock()
	h.loop.post(func() { <-free })
	ticks := []uint64{0, 1 + pick/8%40, 40 + pick/8%2000}[pick%3]
	if ticks == 0 {
		return // until it is called again
	}
	d := time.Duration(ticks) * w.tick
	if off := (w.real() + d) % slackOf(w.tick); off < 2*mostVisits { // no pass runs then
		d += 2 * mostVisits
	}
	go func() {
		select {
		case <-free:
		case <-time.After(d):
			w.unblock(h)
		}
	}()
}

// unblock has the loop of h go on.
func (w *world) unblock(h *home) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !h.isBlocked() {
		return
	}
	took := w.now() - h.block.at + 3*w.tick
	if took >= 10*w.tick { // nothing times out for another five, so that the loop can read what has come
		took += 5 * w.tick
	}
	h.block.past = append(h.block.past, stop{h.block.at, took})
	w.moveAll(h)
	close(h.block.free)
	h.block.free = nil
}

// unblockAll has all loops go on.
func (w *world) unblockAll() {
	for _, h := range w.homes {
		w.unblock(h)
	}
}
