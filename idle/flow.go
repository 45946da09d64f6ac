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

	// paid is the tick, as 32.32, up to which the bytes so far satisfy the
	// minimum rate. Every byte moves it, and so does time without a wait.
	paid atomic.Uint64
}

const waiting = 1

// begin starts all of the flow's clocks at the given stamp.
//
// Phases follow each other faster than ticks, so most of this has nothing to
// store, which saves more than half of its cost.
func (f *flow) begin(stamp uint32) {
	if paid := uint64(stamp) << 32; f.paid.Load() != paid {
		f.paid.Store(paid)
	}
	if f.stamp.Load() != stamp {
		f.stamp.Store(stamp)
	}
	for {
		w := f.wait.Load()
		if begun := stamp<<1 | w&waiting; w == begun || f.wait.CompareAndSwap(w, begun) {
			return
		}
	}
}

// await starts a wait and reports whether there was none. The pause that it
// ends is no time in which the peer owed bytes.
func (f *flow) await(stamp uint32) bool {
	for {
		w := f.wait.Load()
		if w&waiting != 0 {
			return false
		}
		f.excuse(since(w, stamp))
		if f.wait.CompareAndSwap(w, stamp<<1|waiting) {
			return true
		}
	}
}

// renew starts a wait, ending the one before with its last activity, and
// reports whether there was none.
func (f *flow) renew(stamp uint32) bool {
	for {
		w := f.wait.Load()
		switch {
		case w == stamp<<1|waiting:
			return false
		case w&waiting == 0:
			return f.await(stamp)
		}
		f.excuse(min(since(w, stamp), int32(stamp-f.stamp.Load())))
		if f.wait.CompareAndSwap(w, stamp<<1|waiting) {
			return false
		}
	}
}

// excuse has so many ticks not count against the minimum rate.
func (f *flow) excuse(ticks int32) {
	if ticks > 0 {
		f.paid.Add(uint64(ticks) << 32)
	}
}

// rebegin moves the beginning of a wait, if there is one, to the given stamp.
func (f *flow) rebegin(stamp uint32) {
	for {
		w := f.wait.Load()
		if w&waiting == 0 || since(w, stamp) <= 0 || f.wait.CompareAndSwap(w, stamp<<1|waiting) {
			return
		}
	}
}

// pause ends a wait. It returns what wait was if there was one, for resume.
func (f *flow) pause(stamp uint32) (was uint32) {
	for {
		w := f.wait.Load()
		if w&waiting == 0 || f.wait.CompareAndSwap(w, stamp<<1) {
			return w
		}
	}
}

// resume undoes a pause that was made with the given stamp, unless a wait has
// begun since.
func (f *flow) resume(stamp, was uint32) {
	f.wait.CompareAndSwap(stamp<<1, was)
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

// raise moves a stamp forward to the given one, never back.
func raise(at *atomic.Uint32, stamp uint32) {
	for {
		have := at.Load()
		if int32(stamp-have) <= 0 || at.CompareAndSwap(have, stamp) {
			return
		}
	}
}
