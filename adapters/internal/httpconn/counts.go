package httpconn

import (
	"maps"
	"sync"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/idle"
)

// counts are those of timeouts, by what their errors say.
type counts struct {
	mu             sync.Mutex
	phases, limits map[string]uint64
}

// begin has all that can be counted be there, as 0.
func (n *counts) begin(l *Listener) {
	n.phases, n.limits = map[string]uint64{}, map[string]uint64{}
	for p := range numPhases {
		n.phases[p.String()] = 0
	}
	for _, s := range settings(&l.timeouts) {
		n.limits[s.name] = 0
	}
	if l.http2 == NoHTTP2 {
		delete(n.phases, Streams.String())
		delete(n.phases, stream.String())
		delete(n.limits, "StreamTimeout")
	}
}

// add counts a timeout of so many.
func (n *counts) add(err *idle.TimeoutError, many int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	phase := err.Phase
	if _, ours := n.phases[phase]; !ours {
		phase = Hijacked.String() // by a policy with a name of the user's
	}
	n.phases[phase] += uint64(many)
	n.limits[err.Setting] += uint64(many)
}

// Stats returns the present counts. A connection that is tracked anew is the same
// one, and not gone.
func (l *Listener) Stats() httplimits.Stats {
	again := l.again.Load() // first, so that it is not more than what it is taken from
	l.mu.Lock()
	fine := l.fine
	l.mu.Unlock()
	s := l.tracker.Stats()
	if fine != nil {
		s.Add(fine.Stats())
	}
	s.Tracked -= again
	s.Gone -= again
	l.counts.mu.Lock()
	defer l.counts.mu.Unlock()
	return httplimits.Stats{Stats: s, Phases: maps.Clone(l.counts.phases), Limits: maps.Clone(l.counts.limits)}
}
