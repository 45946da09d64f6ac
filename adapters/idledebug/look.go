package idledebug

import (
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/census"
	"github.com/idlewheel/idlewheel/idle"
)

// maxListed is how many connections are listed in each order.
const maxListed = 500

// snapshotLasts is how old counts and ends may be that are shown. Copying the ends delays
// passes in which connections end.
const snapshotLasts = 250 * time.Millisecond

// A look has what all viewers of a tracker share.
type look struct {
	tracker *idle.Tracker
	census  *census.Cache

	mu   sync.Mutex // guards what follows
	at   time.Time  // when the counts and ends were copied
	st   idle.Stats
	ends []idle.End
}

func newLook(t *idle.Tracker) *look {
	t.RecentEnds() // has ends recorded from now on
	return &look{tracker: t, census: census.NewCache(t, maxListed, census.MostIdle, census.Oldest, census.NextToEnd, census.MostUnsent)}
}

// snapshot returns counts and ends that are not old. They are read-only.
func (l *look) snapshot() (idle.Stats, []idle.End) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at.IsZero() || time.Since(l.at) >= snapshotLasts {
		l.st, l.ends, l.at = l.tracker.Stats(), l.tracker.RecentEnds(), time.Now()
	}
	return l.st, l.ends
}
