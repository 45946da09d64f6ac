package httpconn

import (
	"maps"
	"sync"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/idle"
)

// counts are the numbers of timeouts by phase and by setting.
type counts struct {
	mu             sync.Mutex
	phases, limits map[string]uint64
}

// zero sets all counts to 0, so that each of them has an entry.
func (n *counts) zero(h2 HTTP2) {
	n.phases, n.limits = map[string]uint64{}, map[string]uint64{}
	for p := range numPhases {
		n.phases[p.String()] = 0
	}
	for _, s := range settings(new(httplimits.Timeouts)) {
		if s.limits != nil {
			n.limits[s.name] = 0
		}
	}
	if h2 == NoHTTP2 {
		delete(n.phases, Streams.String())
		delete(n.phases, stream.String())
		delete(n.limits, "StreamTimeout")
	}
}

// add counts err.
func (n *counts) add(err *idle.TimeoutError) {
	n.mu.Lock()
	defer n.mu.Unlock()
	phase := err.Phase
	if _, ours := n.phases[phase]; !ours {
		phase = Hijacked.String() // the user's own policy has another name
	}
	n.phases[phase]++
	n.limits[err.Setting]++
}

// Stats returns the current counts.
func (l *Listener) Stats() httplimits.Stats {
	s := l.tracker.Stats()
	l.counts.mu.Lock()
	defer l.counts.mu.Unlock()
	return httplimits.Stats{Stats: s, Phases: maps.Clone(l.counts.phases), Limits: maps.Clone(l.counts.limits)}
}
