package idle

import "sync/atomic"

// A flow is one direction of a connection: what arrives, or what goes out. One
// goroutine at a time reports on a flow; the shard looks at it meanwhile.
type flow struct {
	// stamp is the tick of the last activity.
	stamp atomic.Uint32

	// wait is the tick at which the present wait for bytes began, or at which the
	// last one ended, in the upper 31 bits, and whether there is one.
	wait atomic.Uint32

	// paid is the instant, in ticks as 32.32, up to which the time is paid for. A
	// pause pays for itself, and in a phase with a minimum rate so does every byte.
	// More time than the limit allows must not be unpaid. It is kept only in phases
	// with such a limit; they count exactly, by the clock itself: the fraction of
	// a tick at which a pause began is taken off paid, and the one at which it
	// ended is added.
	paid atomic.Uint64
}

const waiting = 1

// waits reports whether there is a wait.
func (f *flow) waits() bool { return f.wait.Load()&waiting != 0 }

// begin starts all of the flow's clocks: at the given stamp, and those that count
// waits at an instant, the stamp of which is begun.
//
// Phases follow each other faster than ticks, so most of this has nothing to
// store, which saves more than half of its cost.
func (f *flow) begin(stamp, begun uint32, at uint64) {
	if f.paid.Load() != at {
		f.paid.Store(at)
	}
	raise(&f.stamp, stamp)
	for {
		w := f.wait.Load()
		if begun := begun<<1 | w&waiting; w == begun || f.wait.CompareAndSwap(w, begun) {
			return
		}
	}
}

// await starts a wait and reports whether there was none. The pause that it ends,
// at the given instant, is paid for first.
func (f *flow) await(stamp uint32, at uint64) bool {
	for {
		w := f.wait.Load()
		if w&waiting != 0 {
			return false
		}
		if paused := agoExactly(w, at); paused > 0 {
			f.paid.Add(uint64(paused))
		}
		if f.wait.CompareAndSwap(w, stamp<<1|waiting) {
			return true
		}
	}
}

// pause ends a wait, if there is one, at the given instant. The pause is then taken
// for one that began with its tick, so the time from there to the instant, in which
// there still was a wait, is taken off paid. That comes last: another goroutine may
// begin a phase in between, and then the account is short by less than a tick, which
// the deadline allows for.
func (f *flow) pause(stamp uint32, at uint64) {
	for {
		w := f.wait.Load()
		if w&waiting == 0 {
			return
		}
		if f.wait.CompareAndSwap(w, stamp<<1) {
			if waited := agoExactly(stamp<<1, at); waited != 0 {
				f.paid.Add(-uint64(waited))
			}
			return
		}
	}
}

// rewait moves the beginning of a wait, if there is one, to the given stamp.
func (f *flow) rewait(stamp uint32) {
	for {
		w := f.wait.Load()
		if w&waiting == 0 || ago(w, stamp) <= 0 || f.wait.CompareAndSwap(w, stamp<<1|waiting) {
			return
		}
	}
}

// letOff pays for all time up to now, by the given clock, at which it looks twice:
//
//	judge:  reads the clock
//	reader: begins to wait at a later tick, and pays for the pause before
//	judge:  raises paid to what it has read, which swallows that payment
//	reader: notes its wait, of which the pause before is not paid for
func (f *flow) letOff(now func() uint64) {
	f.repay(now())
	f.repay(now())
}

// repay pays for all time up to the given instant, that of a pause that goes on
// included. A pause, as all do, counts from the beginning of its tick.
func (f *flow) repay(at uint64) {
	if f.wait.Load()&waiting == 0 {
		at = instantOf(uint32(at >> 32))
	}
	for {
		paid := f.paid.Load()
		if int64(at-paid) <= 0 || f.paid.CompareAndSwap(paid, at) {
			break
		}
	}
	stamp := uint32(at >> 32)
	if w := f.wait.Load(); w&waiting == 0 && ago(w, stamp) > 0 {
		f.wait.CompareAndSwap(w, stamp<<1)
	}
}

// price returns how many ticks, as 32.32, n bytes pay for, each worth perByte.
// No more than about maxTicks are paid in advance.
func (f *flow) price(n int, perByte uint64, stamp uint32) uint64 {
	const most = maxTicks << 32
	ahead := int64(f.paid.Load() - uint64(stamp)<<32)
	if n <= 0 || ahead > most {
		return 0
	}
	if uint64(n) > most/perByte {
		return most
	}
	return uint64(n) * perByte
}

// refresh keeps the wait from growing older than it can tell.
func (f *flow) refresh(oldest uint32) {
	w := f.wait.Load()
	old := ago(w, oldest)
	if old <= 0 {
		return
	}
	if w&waiting == 0 {
		f.paid.Add(uint64(old) << 32)
	}
	f.wait.CompareAndSwap(w, oldest<<1|w&waiting)
}

// ago returns how many ticks before the given stamp w was written, negative if
// after it. The distance must be less than 2³⁰.
func ago(w, stamp uint32) int32 { return int32(stamp<<1-w&^waiting) >> 1 }

// agoExactly returns how long before the given instant, in ticks as 32.32, the tick
// began in which w was written.
func agoExactly(w uint32, at uint64) int64 {
	return ticks(int64(ago(w, uint32(at>>32)))) + int64(uint32(at))
}

// ticks returns n ticks as 32.32.
func ticks(n int64) int64 { return n << 32 }

// raise moves a stamp forward to the given one, never back.
func raise(at *atomic.Uint32, stamp uint32) {
	for {
		have := at.Load()
		if int32(stamp-have) <= 0 || at.CompareAndSwap(have, stamp) {
			return
		}
	}
}

// state is what a connection is in. The low bits are flags, then come the
// misses of the heartbeat, then a generation, by which work that was begun for
// a connection knows one that has taken its place.
type state struct{ atomic.Uint32 }

const (
	live       = 1 << iota // tracked, and no outcome yet
	expired                // timed out, and waiting for its owner to close it
	asking                 // a callback that may keep it is running
	pinging                // a callback that pings is running
	unanswered             // a ping is
	granted                // it was let live for its unread input
	draining               // it passed its age, and its grace runs
	spent                  // a wait began when waits had used up all that they may

	missUnit = 1 << 8
	missMask = 0xff * missUnit
	flags    = missUnit - 1
	genUnit  = 1 << 16
	genMask  = 0xffff * genUnit
)

func misses(s uint32) int { return int(s & missMask / missUnit) }

// sameGen tells whether two states are of the same tracking of a connection.
func sameGen(a, b uint32) bool { return a&genMask == b&genMask }

// start opens a new generation, and fails if the last one has not ended.
func (s *state) start() bool {
	was := s.Load()
	return was&(live|expired) == 0 && s.CompareAndSwap(was, was&genMask+genUnit|live)
}

// end closes a generation and returns what it was in, false if it was closed.
func (s *state) end() (was uint32, ok bool) {
	for {
		was = s.Load()
		if was&(live|expired) == 0 {
			return was, false
		}
		if s.CompareAndSwap(was, was&genMask) {
			return was, true
		}
	}
}

// set sets and clears bits, whatever the generation.
func (s *state) set(set, clear uint32) {
	for {
		was := s.Load()
		next := was&^clear | set
		if was == next || s.CompareAndSwap(was, next) {
			return
		}
	}
}

// move sets and clears bits if the generation is that of gen, and all of the
// bits in need are set and none of those in set; it reports whether it did.
func (s *state) move(gen, need, set, clear uint32) bool {
	for {
		was := s.Load()
		if !sameGen(was, gen) || was&need != need || was&set != 0 {
			return false
		}
		if s.CompareAndSwap(was, was&^clear|set) {
			return true
		}
	}
}

// mark sets bits, set already or not, if the generation is that of gen.
func (s *state) mark(gen, bits uint32) {
	s.move(gen, 0, bits, 0)
}

// addMiss counts a miss and returns how many there are, 0 if the generation is
// no longer that of gen.
func (s *state) addMiss(gen uint32) int {
	for {
		was := s.Load()
		if !sameGen(was, gen) {
			return 0
		}
		if misses(was) >= maxMisses {
			return maxMisses
		}
		if s.CompareAndSwap(was, was+missUnit) {
			return misses(was + missUnit)
		}
	}
}
