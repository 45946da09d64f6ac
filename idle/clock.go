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

// A clock is the coarse time of a tracker: a count of ticks, copied into every
// shard by the driver once a tick, so that an activity reads the time with one
// load.
//
// A stamp s stands for an instant after the beginning of tick s. How long
// after depends on when the next tick was copied out: a tick later if the
// driver was on time, and much later if the process was starved. To never be
// early, limits count from the end of a stamp, and the clock remembers the
// stamps whose end was unusual.
//
// The driver is on time when it is late by no more than the slack. Expiry runs
// a slack behind the copying, so that a usual delay needs no remembering.
//
// When nothing is active the clock sleeps: the shards' copies are set to 0,
// which no stamp ever equals, so the next activity takes its slow path and
// wakes the clock.
type clock struct {
	start time.Time
	tick  time.Duration
	slack time.Duration

	mu     sync.Mutex
	copies []*atomic.Uint32 // as stamps, one a shard
	gaps   gaps

	// Written under mu, and read without: first last, then calm.
	last       atomic.Int64 // the tick copied last; 0 while asleep
	onTimeFrom atomic.Int64 // stamps from here to last ended in time

	woken chan struct{} // tells the driver that the clock woke up
}

const (
	slackShare = 8 // the slack is this part of a tick
	asleep     = 0 // what a copy holds while the clock sleeps
	never      = math.MaxInt64
)

// maxTicks is the longest timeout in ticks. Stamps have 31 or 32 bits, and are
// refreshed each time a connection is looked at, which is at least this often.
const maxTicks = 1 << 28

func newClock(tick time.Duration) *clock {
	return &clock{
		// Tick 0 is in the past, so that no stamp of a live connection is 0.
		start: time.Now().Add(-tick),
		tick:  tick,
		slack: tick / slackShare,
		woken: make(chan struct{}, 1),
	}
}

// elapsed returns how long ago the clock started.
func (k *clock) elapsed() time.Duration { return time.Since(k.start) }

// now returns the tick of this very moment.
func (k *clock) now() int64 { return int64(k.elapsed() / k.tick) }

// instant returns this very moment in ticks as 32.32, of which the ticks wrap as
// stamps do.
func (k *clock) instant() uint64 {
	d := k.elapsed()
	whole, rest := uint64(d/k.tick), uint64(d%k.tick)
	fraction, _ := bits.Div64(rest>>32, rest<<32, uint64(k.tick))
	return whole<<32 | fraction
}

// after returns how long ago a tick began.
func (k *clock) after(tick int64) time.Duration {
	return k.elapsed() - time.Duration(tick)*k.tick
}

// settled returns the tick at whose deadlines connections may be ended.
func (k *clock) settled() int64 { return k.settledAgo(0) }

// settledInstant returns the beginning of the settled tick.
func (k *clock) settledInstant() uint64 { return instantOf(uint32(k.settled())) }

// settledAgo returns what settled was d ago: the stamp, no later than true, of
// something that happened then.
func (k *clock) settledAgo(d time.Duration) int64 {
	return int64((k.elapsed() - k.slack - d) / k.tick)
}

// stampAgo returns the stamp of what [Evidence] says happened d ago. It is false for 0,
// which is not known, and for what is longer ago than stamps can tell, which is no
// news.
func (k *clock) stampAgo(d time.Duration) (stamp uint32, ok bool) {
	return uint32(k.settledAgo(d)), d > 0 && d/k.tick < maxTicks
}

// in returns what now will be in a while, a very long one at the most.
func (k *clock) in(d time.Duration) int64 {
	return int64((k.elapsed() + min(d, never/2)) / k.tick)
}

// until returns how long it is until a tick begins, negative if it has begun.
func (k *clock) until(tick int64) time.Duration { return -k.after(tick) }

// stampOf returns how tick is written in a connection: its low bits, but never
// as the mark of a sleeping clock. The neighbour that stands in is the next
// tick, so the error is in favour of the connection.
func stampOf(tick int64) uint32 {
	s := uint32(tick)
	if s == asleep {
		s++
	}
	return s
}

// attach has a shard's copy kept from now on.
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

// publish copies the present tick into all shards, unless the clock sleeps.
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

// sleep stops the copying until somebody wakes the clock.
func (k *clock) sleep() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last.Load() != asleep {
		k.set(asleep, asleep)
	}
}

// wake returns the present stamp and sees to it that the clock runs.
func (k *clock) wake() uint32 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last.Load() == asleep {
		now := k.now()
		k.set(stampOf(now), now)
		select {
		case k.woken <- struct{}{}:
		default:
		}
	}
	return stampOf(k.last.Load())
}

// set writes the copies; k.mu is held. If the stamp that they held till now
// ends later than a slack after its tick, that is remembered.
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

// end returns the tick by which an activity with the given stamp had happened.
func (k *clock) end(stamp int64) int64 {
	if last := k.last.Load(); (last == asleep || stamp < last) && stamp >= k.onTimeFrom.Load() {
		return stamp + 1
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if last := k.last.Load(); last != asleep && stamp >= last {
		return k.now() + 1 // it has not ended yet
	}
	return k.gaps.end(stamp)
}

// recent returns settled or, if that costs less, a tick shortly before.
func (k *clock) recent() int64 {
	if last := k.last.Load(); last != asleep {
		return last - 1
	}
	return k.settled()
}

// A moment is the time at which a connection is looked at. Most looks only find
// that nothing is due, and take every stamp for one that ended after a tick; a
// moment with a clock asks it, before anything is done.
type moment struct {
	now     int64         // connections whose deadline is this tick may be ended
	elapsed time.Duration // what the clock reads, if there is one
	clock   *clock
}

// moment returns this very moment, with the clock.
func (k *clock) moment() moment {
	elapsed := k.elapsed()
	return moment{now: int64((elapsed - k.slack) / k.tick), elapsed: elapsed, clock: k}
}

// after returns how long before m a tick began.
func (m moment) after(tick int64) time.Duration { return m.elapsed - time.Duration(tick)*m.clock.tick }

// tick returns the tick that a stamp, at most 2³¹ ticks old, stands for.
func (m moment) tick(stamp uint32) int64 { return m.now - int64(int32(uint32(m.now)-stamp)) }

// end returns the tick by which an activity with the stamp had happened.
func (m moment) end(tick int64) int64 {
	if m.clock == nil {
		return tick + 1
	}
	return m.clock.end(tick)
}

// gaps remembers stamps that ended late. Of the oldest, which are forgotten,
// it keeps the greatest lateness, and takes it for that of every stamp as old.
type gaps struct {
	ring      [1024]gap
	n         int // added ever
	forgotten int64
}

type gap struct{ stamp, end int64 }

func (g *gaps) add(stamp, end int64) {
	slot := &g.ring[g.n%len(g.ring)]
	if g.n >= len(g.ring) {
		g.forgotten = max(g.forgotten, slot.end-slot.stamp)
	}
	*slot = gap{stamp, end}
	g.n++
}

func (g *gaps) end(stamp int64) int64 {
	kept := min(g.n, len(g.ring))
	at := func(i int) gap { return g.ring[(g.n-kept+i)%len(g.ring)] }
	later := sort.Search(kept, func(i int) bool { return at(i).stamp > stamp })
	if later == 0 {
		return stamp + max(1, g.forgotten)
	}
	// A stamp inside a gap was not made by the clock, but worked out. It must
	// not bring forward the deadline of an activity at the gap's beginning.
	return max(stamp+1, at(later-1).end)
}

// instantOf returns the beginning of the tick that a stamp stands for.
func instantOf(stamp uint32) uint64 { return uint64(stamp) << 32 }
