package idle

import (
	"sync/atomic"
	"time"
)

// Stats are counts since a tracker was made, over all its shards. Each count
// is exact; taken together while connections come and go they may be apart by
// what happens meanwhile. When nothing does, Tracked is the sum of Live, Gone
// and all of TimedOut.
type Stats struct {
	Tracked  uint64            // connections of which tracking began
	Live     uint64            // of those, tracked still
	Gone     uint64            // of those, ended by themselves or handed back
	TimedOut map[Reason]uint64 // of those, timed out; reasons that occurred only

	Kept     uint64 // times that OnTimeout answered keep
	Pings    uint64 // calls of Ping
	Misses   uint64 // pings that stayed unanswered
	Deferred uint64 // timeouts that came a tick or more after they were due; after a stall, than they could be known to be
	Panics   uint64 // panics in callbacks

	Looks   uint64 // times a connection was looked at because its slot came up
	Relinks uint64 // times an activity or a phase brought a deadline forward

	Passes  uint64        // passes over a shard that had something due
	Busy    time.Duration // their time, all together
	Longest time.Duration // the time of the longest
}

// Add adds the counts of another tracker to s.
func (s *Stats) Add(other Stats) {
	s.Tracked += other.Tracked
	s.Live += other.Live
	s.Gone += other.Gone
	for r, n := range other.TimedOut {
		if s.TimedOut == nil {
			s.TimedOut = map[Reason]uint64{}
		}
		s.TimedOut[r] += n
	}
	s.Kept += other.Kept
	s.Pings += other.Pings
	s.Misses += other.Misses
	s.Deferred += other.Deferred
	s.Panics += other.Panics
	s.Looks += other.Looks
	s.Relinks += other.Relinks
	s.Passes += other.Passes
	s.Busy += other.Busy
	s.Longest = max(s.Longest, other.Longest)
}

// counters are a shard's counts. They are atomic for the sake of who reads them.
type counters struct {
	tracked, gone, kept, pings, misses, deferred, looks, relinks, passes atomic.Uint64

	timedOut      [numReasons]atomic.Uint64
	busy, longest atomic.Int64
}

func (n *counters) passed(took time.Duration) {
	n.passes.Add(1)
	n.busy.Add(int64(took))
	n.longest.Store(max(n.longest.Load(), int64(took)))
}

func (n *counters) addTo(st *Stats) {
	ended := n.gone.Load()
	st.Gone += ended
	for r := range n.timedOut {
		if v := n.timedOut[r].Load(); v > 0 {
			st.TimedOut[Reason(r)] += v
			ended += v
		}
	}
	tracked := n.tracked.Load()
	st.Tracked += tracked
	st.Live += tracked - ended
	st.Kept += n.kept.Load()
	st.Pings += n.pings.Load()
	st.Misses += n.misses.Load()
	st.Deferred += n.deferred.Load()
	st.Looks += n.looks.Load()
	st.Relinks += n.relinks.Load()
	st.Passes += n.passes.Load()
	st.Busy += time.Duration(n.busy.Load())
	st.Longest = max(st.Longest, time.Duration(n.longest.Load()))
}

// live returns how many connections are live, or more if some end meanwhile: what has
// ended is read first.
func (n *counters) live() uint64 {
	ended := n.gone.Load()
	for r := range n.timedOut {
		ended += n.timedOut[r].Load()
	}
	return n.tracked.Load() - ended
}
