package idle

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// Stats holds counts since a tracker was made, over all its shards. Each count is exact. They
// aren't loaded at the same moment, so they may disagree slightly while connections come and
// go. At rest, Tracked is the sum of Live, Closed, all of TimedOut, Drained, Shed and Evicted. Otherwise
// the sum may be less, because a connection that ends just then is counted in none of these.
type Stats struct {
	Tracked  uint64            // connections tracked so far
	Live     uint64            // of Tracked, those still tracked
	Closed   uint64            // of Tracked, those closed by their owners or handed back by [Tracker.Close]
	TimedOut map[Reason]uint64 // of Tracked, those timed out, by limit; limits that none has passed are left out
	Drained  uint64            // of Tracked, those ended by Tracker.Drain
	Shed     uint64            // of Tracked, those ended by Conn.End, Info.End and Info.EndIfIdle
	Evicted  uint64            // of Tracked, those ended to make room for others

	Causes  map[string]uint64 // the count Shed, by cause (its first 128 bytes); after 100 causes the rest as "(others)"
	Refused uint64            // connections that were not tracked because of the [Capacity]

	Extended uint64 // calls of OnTimeout that returned true
	Pings    uint64 // calls of Ping
	Misses   uint64 // pings that were not answered; those of a passive Heartbeat aren't counted
	Deferred uint64 // timeouts that came at least a tick late, for whatever reason; shortening a limit can make many late at once
	Panics   uint64 // panics in callbacks

	Checks           uint64 // checks of a connection because its slot came up
	EarlyReschedules uint64 // moves to an earlier slot because a deadline was brought forward

	Passes    uint64        // passes over a shard with something due
	PassTotal time.Duration // total time of all passes
	Longest   time.Duration // time of the longest pass

	// BacklogAge is how long the oldest deferred connection has been waiting, at most. It is 0 if
	// the last passes have deferred none. See DESIGN.md, "Backlogs", for the formula of its
	// maximum.
	BacklogAge time.Duration

	// ByPhase holds, for each name of a Policy that the tracker has had, how many
	// connections were ended under it, by each of [Reasons]; zeros are included. Beyond
	// 100 names the rest is counted as "(others)".
	ByPhase map[string]map[Reason]uint64

	EndsLost uint64 // ends that were not reported, because Options.OnEnds was too slow

	// Lifetime covers all connections that have ended, for whatever reason. Times
	// are in whole ticks.
	Lifetime Histogram // how long they were tracked; see Conn.Age
	Lateness Histogram // of those that were timed out by a limit: how long after they were due
}

// ByReason returns how many connections the tracker has ended, by each of [Reasons]; zeros
// are included.
func (s *Stats) ByReason() map[Reason]uint64 {
	all := map[Reason]uint64{}
	for _, r := range Reasons() {
		all[r] = s.TimedOut[r]
	}
	all[ReasonDrain], all[ReasonShed], all[ReasonEvict] = s.Drained, s.Shed, s.Evicted
	return all
}

// Reasons returns all reasons for which a tracker ends connections.
func Reasons() []Reason {
	all := make([]Reason, 0, numReasons-1)
	for r := ReasonIdle; r < numReasons; r++ {
		all = append(all, r)
	}
	return all
}

// Add adds the counts of another tracker to s. Longest and BacklogAge become the maximum.
func (s *Stats) Add(other Stats) {
	s.Tracked += other.Tracked
	s.Live += other.Live
	s.Closed += other.Closed
	s.TimedOut = sum(s.TimedOut, other.TimedOut)
	s.Drained += other.Drained
	s.Shed += other.Shed
	s.Evicted += other.Evicted
	s.Refused += other.Refused
	s.Causes = sum(s.Causes, other.Causes)
	s.Extended += other.Extended
	s.Pings += other.Pings
	s.Misses += other.Misses
	s.Deferred += other.Deferred
	s.Panics += other.Panics
	s.Checks += other.Checks
	s.EarlyReschedules += other.EarlyReschedules
	s.Passes += other.Passes
	s.PassTotal += other.PassTotal
	s.Longest = max(s.Longest, other.Longest)
	s.BacklogAge = max(s.BacklogAge, other.BacklogAge)
	for name, counts := range other.ByPhase {
		if s.ByPhase == nil {
			s.ByPhase = map[string]map[Reason]uint64{}
		}
		s.ByPhase[name] = sum(s.ByPhase[name], counts)
	}
	s.EndsLost += other.EndsLost
	s.Lifetime.Add(&other.Lifetime)
	s.Lateness.Add(&other.Lateness)
}

// sum adds the counts of b to a, which it makes if it is nil.
func sum[K comparable](a, b map[K]uint64) map[K]uint64 {
	for k, n := range b {
		if a == nil {
			a = map[K]uint64{}
		}
		a[k] += n
	}
	return a
}

// A reasonCount counts connections that the tracker has ended.
type reasonCount [numReasons]atomic.Uint64

// load returns the counts, by each of [Reasons].
func (c *reasonCount) load() map[Reason]uint64 {
	all := make(map[Reason]uint64, len(c))
	for _, r := range Reasons() {
		all[r] = c[r].Load()
	}
	return all
}

// byName has a count for each name. Beyond mostNames all others share one.
type byName[T any] struct {
	mu     sync.Mutex
	counts map[string]*T
}

const (
	mostNames  = 100
	otherNames = "(others)"
)

// of returns the count for a name.
func (n *byName[T]) of(name string) *T {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.counts[name] == nil && len(n.counts) >= mostNames {
		name = otherNames
	}
	if n.counts[name] == nil {
		if n.counts == nil {
			n.counts = map[string]*T{}
		}
		n.counts[name] = new(T)
	}
	return n.counts[name]
}

// all returns all counts.
func (n *byName[T]) all() map[string]*T {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.counts)
}

// count counts the end of a connection.
func (s *Stats) count(p *endRecord, k *clock.Clock) {
	s.Lifetime.note(p.age)
	switch {
	case p.err == nil:
		s.Closed++
	case p.err.Reason < numLimits:
		s.Lateness.note(p.late)
		if p.late >= k.Tick+k.Slack {
			s.Deferred++
		}
	}
}

// addEnds adds the ends under the policies of a name.
func (s *Stats) addEnds(name string, counts map[Reason]uint64) {
	for r, n := range counts {
		switch {
		case r == ReasonDrain:
			s.Drained += n
		case r == ReasonShed:
			s.Shed += n
		case r == ReasonEvict:
			s.Evicted += n
		case n > 0:
			s.TimedOut[r] += n
		}
	}
	s.ByPhase[name] = counts
}
