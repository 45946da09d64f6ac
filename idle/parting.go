package idle

import (
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// A parting is what is known of a connection when it ends.
type parting struct {
	owner        any // nil unless the tracker is watched
	phase        *Phase
	born, active clock.Stamp // when it was tracked, and its last use

	age, idle time.Duration // how old the connection was, and how long idle; see counters.part

	stays bool // the connection is open, and not tracked any more

	err  *TimeoutError // nil if the owner has closed it, or it was handed back
	late time.Duration // how long after it was due
}

// parting returns the end record of e, but for its owner.
func (e *entry) parting() parting {
	return parting{phase: e.phase.Load().latest(), born: e.born.Load(), active: e.lastUse()}
}

// part notes how old a connection was that has ended, and how long it was idle, in whole
// ticks, at least, and counts both.
func (n *counters) part(p *parting, k *clock.Clock) {
	m := moment{now: k.Recent() - 1} // an activity is at the end of its tick at the latest
	since := func(stamp clock.Stamp) time.Duration { return time.Duration(max(m.now-m.tick(stamp), 0)) * k.Tick }
	p.age, p.idle = since(p.born), since(p.active)
	n.lifetime.note(p.age)
	n.idle.note(p.idle)
}
