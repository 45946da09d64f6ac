package idle

import (
	"sync"
	"sync/atomic"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
	"github.com/idlewheel/idlewheel/wheel"
)

// A lane is what a connection uses of its [Shard]: the time, and the wheel.
type lane struct {
	// now has a cache line of its own. Every activity reads it, and the fields
	// after it are written often.
	now clock.AtomicStamp // the clock's copy
	_   [60]byte

	clock *clock.Clock
	loop  bool // the shard belongs to an event loop, and lock does nothing

	lock  sync.Locker // guards wheel, the timers in it, and conns
	wheel wheel.Wheel
	conns connSet

	due       atomic.Int64  // the tick at which a pass has work, or never
	slowPaths atomic.Uint32 // slow paths since the driver last looked; not counted beyond clock.FewSlowPaths, and not exact
	counts    counters

	watched *atomic.Bool             // the tracker's
	parted  func(c *Conn, p parting) // called while watched is set, after a connection has ended and been counted
	left    func(c *Conn)            // called before that, in any case
}

// noLock is the lock of a shard that belongs to an event loop.
type noLock struct{}

func (noLock) Lock()   {}
func (noLock) Unlock() {}

// stamp returns the current stamp.
func (l *lane) stamp() clock.Stamp {
	if now := l.now.Load(); !now.Asleep() {
		return now
	}
	return l.clock.Read()
}

// instant returns the current instant and its stamp. If counted is set they come
// from the real clock, otherwise from its copy.
func (l *lane) instant(counted bool) (stamp clock.Stamp, at clock.Instant) {
	if !counted {
		stamp = l.stamp()
		return stamp, stamp.Start()
	}
	at = l.clock.Instant()
	if stamp = clock.StampOf(int64(at.Bits())); stamp.Bits() != at.Bits() { // this tick has the stamp of the next one; see StampOf
		at = stamp.Start()
	}
	return stamp, at
}

// restamp is the slow path of an activity: it stores now. It runs at most once a
// tick for each direction of a connection, but for each activity while the clock sleeps.
func (l *lane) restamp(e *entry, at *clock.AtomicStamp, now clock.Stamp) {
	if l.loop {
		at.Store(now) // on a loop nobody else can have stored a later one
	} else {
		at.Raise(now)
	}
	if e.state.Load()&granted != 0 {
		e.state.set(0, granted)
	}
	if n := l.slowPaths.Load(); n < clock.FewSlowPaths {
		l.slowPaths.Store(n + 1)
	}
}

// pay moves f.paid forward. On a loop nobody else changes it at the same time, so
// that needs no locked instruction.
func (l *lane) pay(f *flow, ticks int64) {
	if l.loop {
		f.paid.Store(f.paid.Load().Add(ticks))
	} else {
		f.paid.Add(ticks)
	}
}

// place schedules e, which must be live, for its deadline. The lock must be held.
func (l *lane) place(e *entry, m moment) {
	l.wheel.Advance(uint64(m.now))
	l.placeAt(e, e.next(m).at, m)
}

// placeAt is place for an entry whose deadline has just been computed to be at
// the tick at. It computes it again after storing it because of this race:
//
//	pass:   computes the deadline at
//	reader: starts a wait with an earlier deadline; e.placed is earlier still, so it does not move e
//	pass:   stores at in e.placed
func (l *lane) placeAt(e *entry, at int64, m moment) {
	l.schedule(e, at)
	for now := e.next(m).at; now < at; now = e.next(m).at {
		at = now
		l.schedule(e, at)
	}
}

// schedule puts e in the wheel for the tick at. The lock must be held.
func (l *lane) schedule(e *entry, at int64) {
	e.placed.Store(uint32(at))
	next := int64(l.wheel.Schedule(&e.timer, uint64(max(at, 0))))
	if next < l.due.Load() { // not during a pass: due has come then, and announce sets it at the end
		l.due.Store(next)
		if l.now.Load().Asleep() { // otherwise the driver looks at due in the next tick
			l.clock.Hurry()
		}
	}
}

// forget takes c, which is ending, out of the wheel and of conns. The lock must be held.
func (l *lane) forget(c *Conn) {
	l.wheel.Cancel(&c.timer)
	l.conns.remove(c)
}

// hasten makes sure that e is looked at no later than at the given stamp. Usually
// its place in the wheel is early enough.
func (l *lane) hasten(e *entry, deadline uint32) {
	if int32(e.placed.Load()-deadline) > 0 {
		l.pull(e)
	}
}

// pull moves e to an earlier place in the wheel, that of its deadline.
func (l *lane) pull(e *entry) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if e.state.Load()&live != 0 && e.timer.Pending() { // otherwise a pass has taken it out, and will compute its deadline
		l.counts.relinks.Add(1)
		l.place(e, moment{now: l.clock.Recent()})
	}
}
