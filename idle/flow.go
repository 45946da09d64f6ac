package idle

import "sync/atomic"

// A flow is one direction of a connection: what arrives, or what goes out.
//
// Ground rules:
//
//   - One goroutine at a time reports on a flow; the shard's owner looks at it
//     meanwhile. Neither waits for the other.
//   - Whoever makes a deadline later does so before what makes it count, and
//     the shard's owner reads in the opposite order. So what it sees is at
//     worst a deadline that was true a moment ago, never an earlier one.
type flow struct {
	// stamp is the tick of the last activity.
	stamp atomic.Uint32

	// wait is the tick at which the present wait for bytes began, or at which
	// the last one ended, in the upper 31 bits, and whether there is one. An
	// owner that is a [Waiter] leaves it to be found out that a wait has ended.
	wait atomic.Uint32

	// paid is the instant, in ticks as 32.32, up to which the bytes so far
	// satisfy the minimum rate, or at which a total began to count. Every byte
	// moves it, and so does time without a wait.
	//
	// It is kept only in phases with such a limit. There waits begin at the tick
	// of the real clock, not of its copy. A wait of which both ends are reported
	// ([Conn.AwaitRead], [Conn.PauseRead]) is counted exactly: the fraction of a
	// tick at which a pause began is taken off paid, and the one at which it
	// ended is added. A wait whose end has to be found out ([Conn.BeginRead])
	// counts for the whole ticks that it has certainly lasted.
	paid atomic.Uint64
}

const waiting = 1

// sure is how many ticks of a wait from tick a to tick b are not certain: it has
// lasted b-a-1 ticks at least, from the end of the one to the beginning of the other.
const sure = 1

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

// await starts a wait and reports whether there was none. The pause that it
// ends, at the given instant, is no time in which the peer owed bytes.
func (f *flow) await(stamp uint32, at uint64) bool {
	for {
		w := f.wait.Load()
		if w&waiting != 0 {
			return false
		}
		f.excuse(sinceExactly(w, at))
		if f.wait.CompareAndSwap(w, stamp<<1|waiting) {
			return true
		}
	}
}

// renew starts a wait, ending the one before with its last activity, and
// reports whether there was none. lag is [clock.lag].
func (f *flow) renew(stamp uint32, at uint64, lag func(wait uint32) int32) bool {
	for {
		w := f.wait.Load()
		switch {
		case w == stamp<<1|waiting:
			return false
		case w&waiting == 0:
			return f.await(stamp, at)
		}
		f.excuse(ticks(int64(min(since(w, stamp), int32(stamp-f.stamp.Load())+sure+lag(w)))))
		if f.wait.CompareAndSwap(w, stamp<<1|waiting) {
			return false
		}
	}
}

// excuse has so much time, in ticks as 32.32, not count against the minimum
// rate or a total.
func (f *flow) excuse(time int64) {
	if time > 0 {
		f.paid.Add(uint64(time))
	}
}

// rebegin moves the beginning of a wait, if there is one, to the given stamp. That
// it may have begun later than its stamp would be forgotten, so it is made good.
func (f *flow) rebegin(stamp uint32, lag func(wait uint32) int32) {
	for {
		w := f.wait.Load()
		if w&waiting == 0 || since(w, stamp) <= 0 {
			return
		}
		f.excuse(ticks(int64(min(since(w, stamp), lag(w)))))
		if f.wait.CompareAndSwap(w, stamp<<1|waiting) {
			return
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
			if waited := sinceExactly(stamp<<1, at); waited != 0 {
				f.paid.Add(-uint64(waited))
			}
			return
		}
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

// since returns how many ticks before the given stamp w was written, negative
// if after it. The distance must be less than 2³⁰.
func since(w, stamp uint32) int32 { return int32(stamp<<1-w&^waiting) >> 1 }

// instantOf returns the beginning of the tick that a stamp stands for.
func instantOf(stamp uint32) uint64 { return uint64(stamp) << 32 }

// ticks returns n ticks as 32.32.
func ticks(n int64) int64 { return n << 32 }

// sinceExactly returns how long before the given instant, in ticks as 32.32, the
// tick began in which w was written.
func sinceExactly(w uint32, at uint64) int64 {
	return ticks(int64(since(w, uint32(at>>32)))) + int64(uint32(at))
}

// raise moves a stamp forward to the given one, never back.
func raise(at *atomic.Uint32, stamp uint32) {
	for {
		have := at.Load()
		if int32(stamp-have) <= 0 || at.CompareAndSwap(have, stamp) {
			return
		}
	}
}

// suspend ends a wait, if there is one, as of the last byte: a wait that begins
// now must not be charged the pause before it. It returns what wait was, and the
// stamp that it has now, for goOn.
func (f *flow) suspend() (was, stamp uint32) {
	for {
		was = f.wait.Load()
		stamp = was >> 1
		if was&waiting == 0 {
			return was, stamp
		}
		if last := f.stamp.Load(); since(was, last) > 0 {
			stamp = last
		}
		if f.wait.CompareAndSwap(was, stamp<<1) {
			return was, stamp
		}
	}
}

// goOn undoes suspend: there is a wait after all, since it was last begun, or
// since a phase was entered meanwhile.
func (f *flow) goOn(stamp, was uint32) {
	for {
		w := f.wait.Load()
		next := w | waiting
		if w == stamp<<1 {
			next = was
		}
		if w&waiting != 0 || f.wait.CompareAndSwap(w, next) {
			return
		}
	}
}

// repay begins the minimum rate anew: what is owed by the given instant is let
// off, that of a pause that goes on included. A pause, as all do, counts from the
// beginning of its tick.
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
	if w := f.wait.Load(); w&waiting == 0 && since(w, stamp) > 0 {
		f.wait.CompareAndSwap(w, stamp<<1)
	}
}
