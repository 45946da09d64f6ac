package idle

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"math"
	"math/bits"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/idlewheel/idlewheel/idle/internal/callbacks"
	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// Stats holds counts since a tracker was made, over all its shards. Each count is exact. They
// aren't loaded at the same moment, so they may disagree slightly while connections come and
// go. At rest, Tracked is the sum of Live, HandedBack, Closed, all of TimedOut, Drained, Shed and Evicted. Otherwise
// the sum may be less, because a connection that ends just then is counted in none of these.
type Stats struct {
	Tracked    uint64            // connections tracked so far
	Live       uint64            // of Tracked, those still tracked
	HandedBack uint64            // of Tracked, those that were live at [Tracker.Close] or [Shard.Close]; their owners may still use them
	Closed     uint64            // of Tracked, those closed by their owners before that
	TimedOut   map[Reason]uint64 // of Tracked, those timed out, by limit; limits that none has passed are left out
	Drained    uint64            // of Tracked, those ended by Tracker.Drain
	Shed       uint64            // of Tracked, those ended by Conn.End, Info.End and Info.EndIfIdle
	Evicted    uint64            // of Tracked, those ended to make room for others

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

	// Lifetime covers all connections that have ended, for whatever reason, but not those
	// handed back. Times are in whole ticks.
	Lifetime Histogram // how long they were tracked; see Conn.Age
	Lateness Histogram // of those that were timed out by a limit: how long after they were due
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
	s.HandedBack += other.HandedBack
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

// count counts a connection that isn't tracked any more.
func (s *Stats) count(p *endRecord, k *clock.Clock) {
	if p.handedBack {
		s.HandedBack++
		return
	}
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

// NumBuckets is the number of buckets of a [Histogram].
const NumBuckets = 46

// leastBound is the upper bound of the first bucket: 2 to this power of a second, or
// 0.95 µs. That of the last but one is 2²⁴ s, or 194 days.
const leastBound = -20

// A Histogram counts durations in buckets whose bounds are the powers of 2 of a second.
// They are those of Prometheus's native histograms with schema 0.
type Histogram struct {
	// Buckets[i] counts durations of at most BucketBound(i) that are longer than
	// BucketBound(i-1).
	Buckets [NumBuckets]uint64

	// SumMicros is the sum of all durations in microseconds. Each duration is rounded down to
	// whole microseconds. A
	// time.Duration could not hold the lifetimes of a million connections of a day each.
	SumMicros uint64
}

// BucketBound returns the longest duration in bucket i of a [Histogram]: 2 to the power of
// i-20 seconds, rounded down to nanoseconds. The last bucket has no bound, and BucketBound
// returns the longest Duration there is.
func BucketBound(i int) time.Duration {
	if i >= NumBuckets-1 {
		return math.MaxInt64
	}
	if i < -leastBound {
		return time.Second >> (-leastBound - i)
	}
	return time.Second << (leastBound + i)
}

// Count returns the number of durations in h.
func (h Histogram) Count() (n uint64) {
	for _, in := range h.Buckets {
		n += in
	}
	return n
}

// Quantile returns the duration that a share q of all durations does not exceed. q is from 0 to
// 1. The result is the bound of a bucket, so it may be up to twice as long. It is 0 if h is empty.
func (h Histogram) Quantile(q float64) time.Duration {
	rank := uint64(math.Ceil(q * float64(h.Count())))
	sum := uint64(0)
	for i, in := range h.Buckets {
		if sum += in; in > 0 && sum >= rank {
			return BucketBound(i)
		}
	}
	return 0
}

// Add adds the durations that another histogram has counted.
func (h *Histogram) Add(other *Histogram) {
	for i, n := range other.Buckets {
		h.Buckets[i] += n
	}
	h.SumMicros += other.SumMicros
}

// note counts a duration.
func (h *Histogram) note(d time.Duration) {
	h.Buckets[bucketOf(d)]++
	h.SumMicros += uint64(max(d, 0).Microseconds())
}

// bucketOf returns the index of the bucket of d. Its length in bits tells the index, or the
// one before.
func bucketOf(d time.Duration) int {
	if d <= 0 {
		return 0
	}
	i := max(bits.Len64(uint64(d))-10, 0) // because 2⁹ ns < BucketBound(0) < 2¹⁰ ns
	if d > BucketBound(i) {
		i++
	}
	return min(i, NumBuckets-1)
}

// record records the end of a connection, if ends are recorded.
func (t *Tracker) record(owner any, p *endRecord) {
	if !t.recording.Load() {
		return
	}
	e := End{Time: time.Now(), Phase: p.limits.policy.Name, Label: t.label(owner), Age: p.age, Idle: p.idle, Late: p.late}
	if p.err != nil {
		e.Reason, e.Setting, e.Phase, e.Cause = p.err.Reason, p.err.Setting, p.err.Phase, clip(p.err.Cause)
	}
	t.ends.Add(e)
}

// learnAddr asks for the address of a new connection, the default label, so that it's known at the
// end.
func (t *Tracker) learnAddr(owner any) {
	if t.recording.Load() {
		t.calls.Guard("KnownAddr", func() { knownAddr(owner) })
	}
}

// label returns the label of a connection.
func (t *Tracker) label(owner any) (label string) {
	t.calls.Guard("Label", func() { label = t.opts.Label(owner) })
	return clip(label)
}

// clip returns the first mostLabel bytes of text, or fewer so that no rune is cut.
func clip(text string) string {
	if len(text) <= mostLabel {
		return text
	}
	end := mostLabel
	for end > mostLabel-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.Clone(text[:end])
}

// LogEnds returns a function for [Options].OnEnds that logs each end at a level, at most 100 per
// second. The next record says how many were left out. A record has the time of the end. Its reason
// is the name of the limit, as in [TimeoutError].Setting, or drain, shed, evict or closed. A nil
// logger is slog.Default(). Several trackers may share the function.
func LogEnds(logger *slog.Logger, level slog.Leveler) func(ends []End) {
	if logger == nil {
		logger = slog.Default()
	}
	var mu sync.Mutex
	var limit callbacks.LogLimit
	return func(ends []End) {
		ctx, at := context.Background(), level.Level()
		if !logger.Enabled(ctx, at) {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, e := range ends {
			leftOut, ok := limit.Allow(e.Time)
			if !ok {
				continue
			}
			reason := "closed"
			if e.Reason != 0 {
				reason = e.Reason.String()
			}
			r := slog.NewRecord(e.Time, at, "idle: a connection has ended", 0)
			r.AddAttrs(slog.String("reason", cmp.Or(e.Setting, reason)), slog.Duration("age", e.Age), slog.Duration("idle", e.Idle))
			for _, text := range []slog.Attr{slog.String("phase", e.Phase), slog.String("cause", e.Cause), slog.String("label", e.Label)} {
				if text.Value.String() != "" {
					r.AddAttrs(text)
				}
			}
			if e.Late > 0 {
				r.AddAttrs(slog.Duration("late", e.Late))
			}
			if leftOut > 0 {
				r.AddAttrs(slog.Int("left_out", leftOut))
			}
			_ = logger.Handler().Handle(ctx, r)
		}
	}
}

// An End says how a tracked connection ended.
type End struct {
	Time   time.Time
	Reason Reason // 0 if its owner has closed it, or it was handed back by Close

	Setting string // the limit's, as in [TimeoutError]; empty if none has passed
	Phase   string // Policy.Name of its phase
	Cause   string // passed to [Conn.End], [Info.End] or [Info.EndIfIdle]; the first 128 bytes
	Label   string // see Options.Label

	Age  time.Duration // see [Conn.Age]
	Idle time.Duration // since its last use, see [Conn.Idle]
	Late time.Duration // how long after it was due, for the Reason of a limit
}

// label is the default of Options.Label.
func label(owner any) string {
	if addr := knownAddr(owner); addr != nil {
		return addr.String()
	}
	return ""
}

// knownAddr returns the address of an owner's peer, or nil if there is none, or it is not
// known yet.
func knownAddr(owner any) net.Addr {
	switch peer := owner.(type) {
	case interface{ KnownAddr() net.Addr }:
		return peer.KnownAddr()
	case interface{ RemoteAddr() net.Addr }:
		return peer.RemoteAddr()
	}
	return nil
}

// An endRecord has what is known about a connection when it ends.
type endRecord struct {
	limits     *limits       // in force then
	state      uint32        // before it
	err        *TimeoutError // nil if the owner has closed it, or it was handed back
	handedBack bool          // a Close has ended the tracking
	late       time.Duration // how long after it was due
	forced     bool          // it was ended although it may have been in use

	age, idle time.Duration // how old the connection was, and how long idle, in whole ticks, rounded down
	last      bool          // its shard has no other one
}
