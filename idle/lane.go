package idle

import (
	"sync"
	"sync/atomic"

	"github.com/idlewheel/idlewheel/wheel"
)

// A lane is what a connection uses of its [Shard]: the time, and its place in the
// wheel.
type lane struct {
	// The clock's copy has a cache line of its own: every activity reads it, and
	// what lies beside it is written.
	now atomic.Uint32 // as a stamp; asleep while the clock sleeps
	_   [60]byte

	clock *clock
	loop  bool // the lane lives on an event loop, and nothing is locked

	lock  sync.Locker // guards wheel, and the places of its connections
	wheel wheel.Wheel

	due     atomic.Int64 // the tick at which a pass has work, or never
	stirred atomic.Bool  // a stamp has changed since the driver looked
	counts  counters

	retiring *atomic.Bool // the tracker's
	ended    func()       // while that is set, is told when a connection is live no more, and counted so
}

// noLock is the lock of a lane that lives on a loop.
type noLock struct{}

func (noLock) Lock()   {}
func (noLock) Unlock() {}

// stamp returns the present stamp, waking the clock if it sleeps.
func (l *lane) stamp() uint32 {
	if now := l.now.Load(); now != asleep {
		return now
	}
	return l.clock.wake()
}

// instant returns the present instant and its stamp: that of the clock if waits are
// counted, and else that of its copy.
func (l *lane) instant(counted bool) (stamp uint32, at uint64) {
	if !counted {
		stamp = l.stamp()
		return stamp, instantOf(stamp)
	}
	at = l.clock.instant()
	if stamp = stampOf(int64(at >> 32)); stamp != uint32(at>>32) { // the tick that has none of its own
		at = instantOf(stamp)
	}
	return stamp, at
}

// restamp is the slow path of an activity now, at most once a tick and connection.
func (l *lane) restamp(e *entry, at *atomic.Uint32, now uint32) {
	if l.loop {
		at.Store(now) // nobody else can have made it later
	} else {
		raise(at, now)
	}
	if e.state.Load()&granted != 0 {
		e.state.set(0, granted)
	}
	if !l.stirred.Load() {
		l.stirred.Store(true)
	}
}

// pay moves on the tick up to which f is paid. On a loop nobody else does so at
// the same time, and it takes no locked instruction.
func (l *lane) pay(f *flow, ticks uint64) {
	if l.loop {
		f.paid.Store(f.paid.Load() + ticks)
	} else {
		f.paid.Add(ticks)
	}
}

// place schedules e, which is live, at its deadline. The lock is held.
func (l *lane) place(e *entry, m moment) {
	l.wheel.Advance(uint64(m.now))
	l.placeAt(e, e.next(m).at, m)
}

// placeAt is place for an entry of which the deadline has just been found to be at a
// tick. A wait that began meanwhile may have looked at the old place.
func (l *lane) placeAt(e *entry, at int64, m moment) {
	l.schedule(e, at)
	for now := e.next(m).at; now < at; now = e.next(m).at {
		at = now
		l.schedule(e, at)
	}
}

// schedule puts e at a tick. The lock is held.
func (l *lane) schedule(e *entry, at int64) {
	e.placed.Store(uint32(at))
	next := int64(l.wheel.Schedule(&e.timer, uint64(max(at, 0))))
	if next < l.due.Load() { // never during a pass, which announces at its end
		l.due.Store(next)
		l.stamp() // the driver looks at due once a tick, but not while the clock sleeps
	}
}

// hasten sees to it that e is looked at no later than at the given stamp. Usually
// it will be anyway.
func (l *lane) hasten(e *entry, deadline uint32) {
	if int32(e.placed.Load()-deadline) > 0 {
		l.pull(e)
	}
}

// pull moves e, which has got a deadline earlier than its place.
func (l *lane) pull(e *entry) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if e.state.Load()&live != 0 && e.timer.Pending() { // else a pass has it in hand, and looks again
		l.counts.relinks.Add(1)
		l.place(e, moment{now: l.clock.recent()})
	}
}
