package simulation

import (
	"testing/synctest"
	"time"
)

// retires reports whether the tracker of w closes itself when the world ends.
func (w *world) retires() bool { return !w.abrupt && w.seed/6%3 == 0 }

// retire has the tracker close itself when it is empty. Meanwhile connections come, end, and time
// out. It must close with the last of them, and not before.
func (w *world) retire() {
	w.tracker.CloseWhenEmpty()
	w.checkRetired()
	for i := range 3 * len(w.slots) {
		s := w.slots[i%len(w.slots)]
		pick := w.chance("retire", i)
		time.Sleep(w.tick*time.Duration(pick%20) + w.tick/3)
		if w.real()%slackOf(w.tick) < mostVisits { // no pass runs then
			time.Sleep(2 * mostVisits)
		}
		s.home.do(func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			switch {
			case s.life != nil && (i >= 2*len(w.slots) || pick/32%2 == 0):
				w.end(s)
			case s.life == nil && i < 2*len(w.slots):
				w.begin(s, pick/32)
			}
		})
		w.checkRetired()
	}
	time.Sleep(time.Minute) // let no callback be running
}

// checkRetired looks whether the tracker is closed, which it has to be if no connection is live.
func (w *world) checkRetired() {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	closed := false
	select {
	case <-w.tracker.Done():
		closed = true
	default:
	}
	if live := w.live(); closed != (live == 0) {
		w.errorf("at %v: to close when empty; %d are live, closed %v", w.now(), live, closed)
	}
}
