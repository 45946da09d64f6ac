package idledebug

import (
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// snapshotLasts is how old counts and ends may be that are shown. Copying the ends delays
// passes in which connections end.
const snapshotLasts = 250 * time.Millisecond

// A snapshot has the counts and the recent ends of a tracker, for all requests together.
type snapshot struct {
	tracker *idle.Tracker

	mu   sync.Mutex
	at   time.Time
	st   idle.Stats
	ends []idle.End
}

// take returns counts and ends that are not old. They are read-only.
func (s *snapshot) take() (idle.Stats, []idle.End) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at.IsZero() || time.Since(s.at) >= snapshotLasts {
		s.st, s.ends, s.at = s.tracker.Stats(), s.tracker.RecentEnds(), time.Now()
	}
	return s.st, s.ends
}
