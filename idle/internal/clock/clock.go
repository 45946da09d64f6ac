// Package clock is the coarse clock of a tracker. It knows nothing about connections.
//
// A [Clock] counts ticks. Once a tick the driver copies the count into every shard, so an
// activity reads the time with one load. While little is active the clock sleeps, and
// each activity reads the real clock instead. A clock also remembers which ticks ended
// late, because the driver was late or the process stalled, so that a limit never counts
// from before an activity.
package clock

import (
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"
)

// A Clock is a coarse clock.
//
// An activity with stamp s happened after tick s began, and before the driver replaced
// the copy s. Usually that was when tick s+1 began. But it was later if the driver ran
// late, and much later if the process was starved of CPU. To never be early, limits
// count from the time at which the stamp ended, and the clock remembers stamps that
// ended late.
//
// A delay of up to Slack does not count as late, because connections are ended a slack
// after each tick began (see Settled).
//
// While the clock sleeps, the copies hold the zero Stamp, which no activity ever has. So
// each activity takes its slow path, and reads the real clock there. When that has been
// read too often, the clock runs again (see sleep.go).
//
// Stamps never go back: an activity that begins after a stamp was handed out gets the same stamp
// or a later one. wake withdraws the allowance before it reads the time for the copies, so
// readings with the allowance are no later than the copies.
type Clock struct {
	Tick  time.Duration
	Slack time.Duration

	start time.Time

	mu     sync.Mutex
	copies []*AtomicStamp // the shards' copies
	gaps   gaps

	// Written under mu, and read without it: the driver stores onTimeFrom before
	// last, and readers load last before onTimeFrom.
	last       atomic.Int64 // the tick copied last; asleep while the clock sleeps
	onTimeFrom atomic.Int64 // all stamps from here to last have ended on time

	allowance allowance // of readings, while the clock sleeps
	quiet     quiet     // the driver's

	hurry   func()      // wakes the driver
	stopped atomic.Bool // the driver has ended, and nobody keeps the copies up to date
}

// SlackShare says that the slack is this fraction of a tick.
const SlackShare = 8

const asleep = 0 // the value of last while the clock sleeps

// MaxTicks is the longest timeout in ticks. Stamps have 31 or 32 bits. They are refreshed at each
// check of a connection, and there is one at least this often.
const MaxTicks = 1 << 28

// New returns a clock with the given tick, which sleeps. hurry makes its driver run what is due; it
// must not block.
func New(tick time.Duration, hurry func()) *Clock {
	k := &Clock{
		// Start in tick 1, so that no stamp of a live connection is 0.
		start: time.Now().Add(-tick),
		Tick:  tick,
		Slack: tick / SlackShare,
		hurry: hurry,
	}
	k.Tune(DefaultTuning(tick))
	return k
}

// Shift makes k older by d. It's for tests, and no other goroutine may use k at the same time.
func (k *Clock) Shift(d time.Duration) { k.start = k.start.Add(-d) }

// Elapsed returns the time since the clock started.
func (k *Clock) Elapsed() time.Duration {
	d := time.Since(k.start)
	if d < 0 {
		panic("idle: a tracker that was made outside a synctest bubble is used in it; make it in the bubble")
	}
	return d
}

// Now returns the current tick, from the real clock.
func (k *Clock) Now() int64 { return int64(k.Elapsed() / k.Tick) }

// Start returns the instant at which the tick of a stamp began, in ns of the clock. The stamp must be at most 2³¹ ticks old.
func (k *Clock) Start(s Stamp) int64 {
	last := k.last.Load()
	if last == asleep {
		last = k.Now()
	}
	return (last + int64(int32(s.bits-uint32(last)))) * int64(k.Tick)
}

// Settled returns the latest tick that began at least a slack ago. A connection
// whose deadline is this tick, or an earlier one, may be ended.
func (k *Clock) Settled() int64 { return int64((k.Elapsed() - k.Slack) / k.Tick) }

// StampAgo returns a stamp, never too late, for something that happened d ago. ok is false if d is 0,
// which means not known, or too long for a stamp.
func (k *Clock) StampAgo(d time.Duration) (stamp Stamp, ok bool) {
	if d <= 0 || d/k.Tick >= MaxTicks {
		return Stamp{}, false
	}
	return StampOf(int64((k.Elapsed() - k.Slack - d) / k.Tick)), true
}

// Ticks returns d in ticks, rounded up. d must not be negative.
func (k *Clock) Ticks(d time.Duration) int64 { return int64(d/k.Tick + min(d%k.Tick, 1)) }

// Until returns the time until the given tick begins. It is negative if the tick
// has begun.
func (k *Clock) Until(tick int64) time.Duration { return time.Duration(tick)*k.Tick - k.Elapsed() }

// Attach adds a shard's copy to those that the clock keeps up to date.
func (k *Clock) Attach(c *AtomicStamp) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.copies = append(k.copies, c)
	if k.last.Load() != asleep {
		c.Store(StampOf(k.last.Load()))
	}
}

// Detach undoes Attach. The copy keeps its last value.
func (k *Clock) Detach(c *AtomicStamp) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.copies = slices.DeleteFunc(k.copies, func(have *AtomicStamp) bool { return have == c })
}

// Publish copies the current tick into all shards, unless the clock sleeps.
func (k *Clock) Publish() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last.Load() == asleep {
		return
	}
	if now := k.Now(); now != k.last.Load() {
		k.set(StampOf(now), now)
	}
}

// Sleeping reports whether the clock sleeps.
func (k *Clock) Sleeping() bool { return k.last.Load() == asleep }

// Sleep stops the copying until wake is called.
func (k *Clock) Sleep() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last.Load() != asleep {
		k.set(Stamp{}, asleep)
		k.allowance.grant()
	}
}

// Read returns the current stamp, for a caller that found the clock asleep. If it has been read
// too often, the clock wakes up.
func (k *Clock) Read() Stamp {
	if at := k.Elapsed(); k.allowance.take(at) {
		return StampOf(int64(at / k.Tick))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last.Load() == asleep {
		if at := k.Elapsed(); k.allowance.take(at) { // the clock has just fallen asleep
			return StampOf(int64(at / k.Tick))
		}
		k.wake()
	}
	return StampOf(k.last.Load())
}

// wake makes a sleeping clock run. k.mu must be held.
func (k *Clock) wake() {
	k.allowance.withdraw()
	now := k.Now()
	k.set(StampOf(now), now)
	k.Hurry()
}

// Stop says that the driver has ended, and nobody calls Publish any more.
func (k *Clock) Stop() { k.stopped.Store(true) }

// Hurry makes the driver run what is due.
func (k *Clock) Hurry() { k.hurry() }

// set stores the copies. If the stamp that they held so far ends more than a
// slack after its tick, set records when it ended. k.mu must be held.
func (k *Clock) set(stamp Stamp, tick int64) {
	for _, c := range k.copies {
		c.Store(stamp)
	}
	if last := k.last.Load(); last != asleep {
		left := k.Elapsed() - k.Slack
		if end := int64((left + k.Tick - 1) / k.Tick); end > last+1 {
			k.gaps.add(last, end)
			k.onTimeFrom.Store(end)
		}
	}
	k.last.Store(tick)
}

// End returns the first tick that began after every activity with the given
// stamp.
func (k *Clock) End(stamp int64) int64 {
	if last := k.last.Load(); (last == asleep || stamp < last) && stamp >= k.onTimeFrom.Load() {
		return stamp + 1
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if last := k.last.Load(); last != asleep && stamp >= last {
		return max(k.Now(), stamp) + 1 // it has not ended yet; forecasts have stamps in the future
	}
	return k.gaps.end(stamp)
}

// Recent returns the settled tick or, when that's cheaper, an earlier one: the tick before the one that was copied last.
func (k *Clock) Recent() int64 {
	if last := k.last.Load(); last != asleep && !k.stopped.Load() {
		return last - 1
	}
	return k.Settled()
}

// gaps are the stamps that ended late, the oldest first. There are at most mostGaps of them. When there are more, those
// next to each other in the older half are joined. So the farther back a stamp is, the less exactly is it
// known when it ended, but it never seems to have ended too early.
type gaps []gap

// A gap says that no activity with the given stamp, or a later one before the next gap, was later than the
// beginning of the tick end, nor later than the tick late ticks after its stamp.
type gap struct{ stamp, end, late int64 }

const mostGaps = 1024

// add adds that the given stamp ended only at the tick end.
func (g *gaps) add(stamp, end int64) {
	if all := *g; len(all) == mostGaps {
		for i := range mostGaps / 4 {
			a, b := all[2*i], all[2*i+1]
			all[i] = gap{a.stamp, b.end, max(a.late, b.late)}
		}
		*g = append(all[:mostGaps/4], all[mostGaps/2:]...)
	}
	*g = append(*g, gap{stamp, end, end - stamp})
}

// end is Clock.End for a stamp that may have ended late.
func (g gaps) end(stamp int64) int64 {
	later := sort.Search(len(g), func(i int) bool { return g[i].stamp > stamp })
	if later == 0 {
		return stamp + 1
	}
	// A stamp inside a gap was not made by the clock but computed by StampAgo.
	// Its end must not be earlier than that of an activity at the start of the
	// gap.
	in := g[later-1]
	return min(max(stamp+1, in.end), stamp+in.late)
}
