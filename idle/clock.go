package idle

import (
	"math"
	"math/bits"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"
)

// A clock is the coarse time of a tracker. It counts ticks. Once a tick the
// driver copies the count into every shard, so an activity reads the time with
// one load.
//
// A stamp is a tick as a connection stores it (see stampOf). An activity with
// stamp s happened after tick s began, and before the driver replaced the copy s.
// Usually that was when tick s+1 began. But it was later if the driver ran late,
// and much later if the process was starved of CPU. To never be early, limits
// count from the time at which the stamp ended, and the clock remembers stamps
// that ended late.
//
// A delay of up to slack does not count as late, because connections are ended a
// slack after each tick began (see settled).
//
// While little is active the clock sleeps: the copies are set to 0, which no stamp
// ever equals. So each activity takes its slow path, and reads the real clock there.
// When that has been read too often, the clock runs again (see nap.go).
//
// Stamps never go back: what begins after a stamp was given has that one or a later
// one. wake withdraws the allowance before it reads the time for the copies, so what
// others have read with it is no later.
//
// An instant is a time in ticks as a 32.32 fixed-point number. Its ticks wrap
// around like stamps.
type clock struct {
	start time.Time
	tick  time.Duration
	slack time.Duration

	mu     sync.Mutex
	copies []*atomic.Uint32 // the shards' copies, as stamps
	gaps   gaps

	// Written under mu, and read without it: the driver stores onTimeFrom before
	// last, and readers load last before onTimeFrom.
	last       atomic.Int64 // the tick copied last; asleep while the clock sleeps
	onTimeFrom atomic.Int64 // all stamps from here to last have ended on time

	allowance allowance // of readings, while the clock sleeps

	signal  chan struct{} // has the driver look for work
	stopped atomic.Bool   // the driver has ended, and nobody keeps the copies up to date
}

const (
	slackShare = 8 // slack is this fraction of a tick
	asleep     = 0 // the value of the copies while the clock sleeps
	never      = math.MaxInt64
)

// maxTicks is the longest timeout in ticks. Stamps have 31 or 32 bits. They are
// refreshed at each look at a connection, and there is one at least this often.
const maxTicks = 1 << 28

func newClock(tick time.Duration) *clock {
	return &clock{
		// Start in tick 1, so that no stamp of a live connection is 0.
		start:     time.Now().Add(-tick),
		tick:      tick,
		slack:     tick / slackShare,
		allowance: allowance{each: tick / readsPerTick, most: burstOfReads * (tick / readsPerTick)},
		signal:    make(chan struct{}, 1),
	}
}

// elapsed returns the time since the clock started.
func (k *clock) elapsed() time.Duration {
	d := time.Since(k.start)
	if d < 0 {
		panic("idle: a tracker that was made outside a synctest bubble is used in it; make it in the bubble")
	}
	return d
}

// now returns the current tick, from the real clock.
func (k *clock) now() int64 { return int64(k.elapsed() / k.tick) }

// instant returns the current instant, from the real clock.
func (k *clock) instant() uint64 {
	d := k.elapsed()
	whole, rest := uint64(d/k.tick), uint64(d%k.tick)
	fraction, _ := bits.Div64(rest>>32, rest<<32, uint64(k.tick))
	return whole<<32 | fraction
}

// after returns the time since the given tick began.
func (k *clock) after(tick int64) time.Duration {
	return k.elapsed() - time.Duration(tick)*k.tick
}

// settled returns the latest tick that began at least a slack ago. A connection
// whose deadline is this tick, or an earlier one, may be ended.
func (k *clock) settled() int64 { return k.settledAgo(0) }

// settledInstant returns the start of the settled tick.
func (k *clock) settledInstant() uint64 { return instantOf(uint32(k.settled())) }

// settledAgo returns what settled returned d ago. It is a stamp, never too late,
// for something that happened then.
func (k *clock) settledAgo(d time.Duration) int64 {
	return int64((k.elapsed() - k.slack - d) / k.tick)
}

// stampAgo returns the stamp for something that [Evidence] says happened d ago.
// ok is false if d is 0, which means not known, or so long that stamps cannot
// tell.
func (k *clock) stampAgo(d time.Duration) (stamp uint32, ok bool) {
	if d <= 0 || d/k.tick >= maxTicks {
		return 0, false
	}
	return stampOf(k.settledAgo(d)), true
}

// in returns the tick that now returns after d. d may be very long.
func (k *clock) in(d time.Duration) int64 {
	return int64((k.elapsed() + min(d, never/2)) / k.tick)
}

// until returns the time until the given tick begins. It is negative if the tick
// has begun.
func (k *clock) until(tick int64) time.Duration { return -k.after(tick) }

// stampOf returns the stamp of a tick: its low 32 bits. A tick whose low bits are
// 0, the value of a sleeping clock, gets the stamp of the next tick. That makes a
// timeout later, never earlier.
func stampOf(tick int64) uint32 {
	s := uint32(tick)
	if s == asleep {
		s++
	}
	return s
}

// stampBefore returns the stamp before s.
func stampBefore(s uint32) uint32 {
	if s--; s == asleep {
		s--
	}
	return s
}

// attach adds a shard's copy to those that the clock keeps up to date.
func (k *clock) attach(c *atomic.Uint32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.copies = append(k.copies, c)
	if k.last.Load() != asleep {
		c.Store(stampOf(k.last.Load()))
	}
}

// detach undoes attach. The copy keeps its last value.
func (k *clock) detach(c *atomic.Uint32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.copies = slices.DeleteFunc(k.copies, func(have *atomic.Uint32) bool { return have == c })
}

// publish copies the current tick into all shards, unless the clock sleeps.
func (k *clock) publish() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last.Load() == asleep {
		return
	}
	if now := k.now(); now != k.last.Load() {
		k.set(stampOf(now), now)
	}
}

// sleeping reports whether the clock sleeps.
func (k *clock) sleeping() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last.Load() == asleep
}

// sleep stops the copying until wake is called.
func (k *clock) sleep() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last.Load() != asleep {
		k.set(asleep, asleep)
		k.allowance.grant()
	}
}

// read returns the current stamp, for those who found that the clock sleeps. If it has
// been read too often, it runs from now on.
func (k *clock) read() uint32 {
	if at := k.elapsed(); k.allowance.take(at) {
		return stampOf(int64(at / k.tick))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last.Load() == asleep {
		if at := k.elapsed(); k.allowance.take(at) { // the clock has just fallen asleep
			return stampOf(int64(at / k.tick))
		}
		k.wake()
	}
	return stampOf(k.last.Load())
}

// wake makes a sleeping clock run. k.mu must be held.
func (k *clock) wake() {
	k.allowance.withdraw()
	now := k.now()
	k.set(stampOf(now), now)
	k.hurry()
}

// hurry makes the driver look for work.
func (k *clock) hurry() {
	select {
	case k.signal <- struct{}{}:
	default:
	}
}

// set stores the copies. If the stamp that they held so far ends more than a
// slack after its tick, set records when it ended. k.mu must be held.
func (k *clock) set(stamp uint32, tick int64) {
	for _, c := range k.copies {
		c.Store(stamp)
	}
	if last := k.last.Load(); last != asleep {
		left := k.elapsed() - k.slack
		if end := int64((left + k.tick - 1) / k.tick); end > last+1 {
			k.gaps.add(last, end)
			k.onTimeFrom.Store(end)
		}
	}
	k.last.Store(tick)
}

// end returns the first tick that began after every activity with the given
// stamp.
func (k *clock) end(stamp int64) int64 {
	if last := k.last.Load(); (last == asleep || stamp < last) && stamp >= k.onTimeFrom.Load() {
		return stamp + 1
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if last := k.last.Load(); last != asleep && stamp >= last {
		return max(k.now(), stamp) + 1 // it has not ended yet; forecasts have stamps in the future
	}
	return k.gaps.end(stamp)
}

// recent returns settled or, when that is cheaper, a tick shortly before it.
func (k *clock) recent() int64 {
	if last := k.last.Load(); last != asleep && !k.stopped.Load() {
		return last - 1
	}
	return k.settled()
}

// A moment is the time at which a connection is looked at. Most looks only find
// that nothing is due. They use a moment without a clock, which assumes that
// every stamp ended one tick later. Before anything is done to a connection, a
// moment with a clock asks it when the stamp really ended.
type moment struct {
	now     int64         // connections whose deadline is this tick or earlier may be ended
	elapsed time.Duration // clock.elapsed at this moment; not set without a clock
	clock   *clock
}

// moment returns the current moment, with the clock.
func (k *clock) moment() moment {
	elapsed := k.elapsed()
	return moment{now: int64((elapsed - k.slack) / k.tick), elapsed: elapsed, clock: k}
}

// after returns the time from the start of the given tick to m.
func (m moment) after(tick int64) time.Duration { return m.elapsed - time.Duration(tick)*m.clock.tick }

// tick returns the tick of a stamp. The stamp must be at most 2³¹ ticks old.
func (m moment) tick(stamp uint32) int64 { return m.now - int64(int32(uint32(m.now)-stamp)) }

// end returns the first tick that began after every activity in the given tick.
func (m moment) end(tick int64) int64 {
	if m.clock == nil {
		return tick + 1
	}
	return m.clock.end(tick)
}

// since returns how long ago all activities with the given stamp were, at least. The
// stamp may have been in use for a slack longer than end knows. If it was computed from
// Evidence, the result may be too long by a tick.
func (m moment) since(stamp uint32) time.Duration {
	return max(0, m.after(m.end(m.tick(stamp)))-m.clock.slack)
}

// gaps records stamps that ended late, and when. It forgets the oldest, but keeps
// the greatest lateness among those, and assumes that for every stamp as old as
// them.
type gaps struct {
	ring      [1024]gap
	n         int // number of gaps ever added
	forgotten int64
}

type gap struct{ stamp, end int64 }

// add records that the given stamp ended only at the tick end.
func (g *gaps) add(stamp, end int64) {
	slot := &g.ring[g.n%len(g.ring)]
	if g.n >= len(g.ring) {
		g.forgotten = max(g.forgotten, slot.end-slot.stamp)
	}
	*slot = gap{stamp, end}
	g.n++
}

// end is clock.end for a stamp that may have ended late.
func (g *gaps) end(stamp int64) int64 {
	kept := min(g.n, len(g.ring))
	at := func(i int) gap { return g.ring[(g.n-kept+i)%len(g.ring)] }
	later := sort.Search(kept, func(i int) bool { return at(i).stamp > stamp })
	if later == 0 {
		return stamp + max(1, g.forgotten)
	}
	// A stamp inside a gap was not made by the clock but computed from Evidence.
	// Its end must not be earlier than that of an activity at the start of the
	// gap.
	return max(stamp+1, at(later-1).end)
}

// instantOf returns the start of the tick with the given stamp, as an instant.
func instantOf(stamp uint32) uint64 { return uint64(stamp) << 32 }
