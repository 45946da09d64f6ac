package simulation

import (
	"time"
)

// A use is when a direction was last used: at least, and at most, where the order of what
// happens within a moment decides.
type use struct {
	lo, hi  time.Duration
	before  time.Duration // lo before the last use
	noise   time.Duration // the last ping, answer or beat
	told    time.Duration // what only the kernel has reported, and what the core makes of it at least
	least   time.Duration
	expects expectation
	until   time.Duration // from here on nothing is expected
}

// An expectation says whether the next activity is a ping, or the answer to one.
type expectation uint8

const (
	isUse expectation = iota
	isNoise
	isEither
)

// moved notes an activity.
func (u *use) moved(now time.Duration) {
	e := u.expects
	switch {
	case now > u.until:
		e = isUse
	case now == u.until && e == isNoise:
		e = isEither
	}
	switch u.expects = isUse; e {
	case isNoise:
		u.beats(now)
	case isEither:
		u.beats(now)
		u.hi = now
	case isUse:
		u.lo, u.hi, u.before = now, now, u.lo
	}
}

// beats notes an activity that is no use. It may be the byte that the kernel has reported
// before. The core goes on with what it has made of that report, see [Shard.probe].
func (u *use) beats(now time.Duration) {
	if u.noise, u.expects = now, isUse; u.lo == u.told {
		u.lo = u.least
	}
}

// reset notes that all begins anew.
func (u *use) reset(now time.Duration) { *u = use{lo: now, hi: now, before: now} }

// found notes what the kernel has reported. It cannot be told from noise shortly before.
func (u *use) found(at, tick time.Duration) {
	if u.hi = max(u.hi, at); at > u.noise+4*tick || u.noise < u.lo {
		if u.lo < at {
			u.told, u.least = at, max(u.lo, at-tick-slackOf(tick))
		}
		u.lo = max(u.lo, at)
	}
}

// unread notes that unread input counts as use. Its stamp is of the tick before.
func (u *use) unread(now, tick time.Duration) {
	u.lo, u.hi = max(u.lo, now-tick-slackOf(tick)), max(u.hi, now)
}

// expect notes that a ping begins.
func (u *use) expect(now, tick time.Duration) {
	u.until = never
	switch {
	case now-u.hi > 2*tick && now > u.noise:
		u.expects = isNoise
	default:
		u.expects = isEither
		if u.hi == now { // it was taken for it
			u.lo = min(u.lo, u.before)
		}
	}
}

// doubt notes that the core may take the next activity for use.
func (u *use) doubt() {
	if u.expects == isNoise {
		u.expects = isEither
	}
}

// used is when the connection was last used.
func (l *ledger) used() (lo, hi time.Duration) {
	return max(l.usedIn.lo, l.usedOut.lo), max(l.usedIn.hi, l.usedOut.hi)
}

// idleSince is from when its idle limit counts.
func (l *ledger) idleSince() (lo, hi time.Duration) {
	lo, hi = l.used()
	return max(lo, l.idleKept), max(hi, l.idleKept)
}
