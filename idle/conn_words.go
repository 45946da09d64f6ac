package idle

import (
	"github.com/idlewheel/idlewheel/idle/internal/clock"
	"github.com/idlewheel/idlewheel/idle/internal/words"
)

// A flow is the activity in one direction of a connection: what arrives, or what
// is sent. One goroutine at a time reports on a flow.
type flow struct {
	stamp clock.AtomicStamp
	wait  words.Uint32 // the tick of the begin or end, and in the lowest bit (waiting) whether there is a wait

	// paid counts in a phase that limits waits in total (ReadTotal, the minimum rates). A
	// pause moves it forward by its length, and with a minimum rate each byte by its price.
	// The limit passes when paid falls behind the current time by more than the limit allows.
	//
	// Such waits are measured exactly, by the real clock. As wait stores the
	// start of a pause in whole ticks, pause subtracts the fraction of the tick
	// in which the wait still lasted, and await adds the whole pause from the
	// start of that tick.
	paid clock.AtomicInstant
}

const waiting = 1

// waits reports whether there is a wait.
func (f *flow) waits() bool { return f.wait.Load()&waiting != 0 }

// begin restarts all clocks of the flow: the last activity at stamp, the current
// wait or pause at begun, and the account at the instant at.
//
// Phases often follow each other within a tick. Then most values are unchanged,
// and not storing them saves more than half of the cost.
func (f *flow) begin(stamp, begun clock.Stamp, at clock.Instant) {
	if f.paid.Load() != at {
		f.paid.Store(at)
	}
	f.stamp.Raise(stamp)
	for {
		w := f.wait.Load()
		if begun := wordOf(begun) | w&waiting; w == begun || f.wait.CompareAndSwap(w, begun) {
			return
		}
	}
}

// await starts a wait. It reports whether there was none. It first pays for the
// pause that ends at the instant at.
//
// Meanwhile another goroutine may move the start of the pause, and begin a new account:
//
//	reader: loads wait, and with it the start of a long pause
//	Enter:  stores paid, up to now
//	reader: pays for the pause
//	Enter:  stores wait
//	reader: fails to swap wait
//
// What the reader has paid is then taken back, down to the new start of the pause.
func (f *flow) await(stamp clock.Stamp, at clock.Instant) bool {
	for {
		w := f.wait.Load()
		if w&waiting != 0 {
			return false
		}
		had := f.paid.Load()
		paid := had.Add(max(agoExactly(w, at), 0))
		if paid != had && !f.paid.CompareAndSwap(had, paid) {
			continue
		}
		if f.wait.CompareAndSwap(w, wordOf(stamp)|waiting) {
			return true
		}
		moved := at.Add(-agoExactly(f.wait.Load(), at))
		if most := had.Later(moved); paid.Sub(most) > 0 {
			f.paid.CompareAndSwap(paid, most)
		}
	}
}

// settle takes back what is paid beyond the current time, after a phase was entered. That
// is what was paid meanwhile for the pause before, or by bytes of the phase before.
// Usually paid is no later than the tick at which the phase began, or in it.
func (f *flow) settle(began clock.Stamp, now func() clock.Instant) {
	if f.paid.Load().Sub(began.Start()) > ticks(1) {
		f.limitTo(now())
	}
}

// limitTo takes back what is paid beyond the instant at.
func (f *flow) limitTo(at clock.Instant) {
	for {
		paid := f.paid.Load()
		if paid.Sub(at) <= 0 || f.paid.CompareAndSwap(paid, at) {
			return
		}
	}
}

// pause ends the current wait, if there is one, at the instant at, whose tick is
// stamp. It returns the word before. The pause counts from the start of its tick. So the part of
// that tick before at, which still was a wait, is subtracted from paid.
//
// The subtraction comes last. If another goroutine begins a phase between the two
// steps, the account is short by less than a tick, and the deadline allows for
// that.
func (f *flow) pause(stamp clock.Stamp, at clock.Instant) (was uint32) {
	for {
		w := f.wait.Load()
		if w&waiting == 0 {
			return w
		}
		if f.wait.CompareAndSwap(w, wordOf(stamp)) {
			if waited := agoExactly(wordOf(stamp), at); waited != 0 {
				f.paid.Add(-waited)
			}
			return w
		}
	}
}

// deadline returns the tick up to which waits are paid for and allowed, as the low bits.
func (f *flow) deadline(d *direction) uint32 { return f.paid.Load().Bits() + 2 + uint32(d.counted) }

// rewait moves the start of the current wait forward to stamp. It reports whether there is one.
func (f *flow) rewait(stamp clock.Stamp) (waits bool) {
	for {
		w := f.wait.Load()
		if w&waiting == 0 || ago(w, stamp.Bits()) <= 0 || f.wait.CompareAndSwap(w, wordOf(stamp)|waiting) {
			return w&waiting != 0
		}
	}
}

// letOff pays for all time up to now. It loads the time twice because of this race:
//
//	check:   loads the time
//	reader: starts a wait at a later tick, and pays for the pause before it
//	check:   raises paid to the time it has loaded, so the payment is lost
//	reader: stores the start of its wait
//
// The second time covers the pause.
func (f *flow) letOff(now func() clock.Instant) {
	f.repay(now())
	f.raisePaid(now())
}

// repay pays for all time up to the instant at. If a pause is under way, it starts over
// there. That comes first: a wait that begins meanwhile pays for the pause too, and then
// finds that the pause was moved (see await).
func (f *flow) repay(at clock.Instant) {
	if w := f.wait.Load(); w&waiting == 0 && ago(w, at.Bits()) > 0 {
		f.wait.CompareAndSwap(w, at.Bits()<<1)
	}
	f.raisePaid(at)
}

// raisePaid moves paid forward to the instant at. During a pause that is rounded down to
// the start of the tick, because the pause counts from there.
func (f *flow) raisePaid(at clock.Instant) {
	if f.wait.Load()&waiting == 0 {
		at = clock.StartOf(at.Bits())
	}
	for {
		paid := f.paid.Load()
		if at.Sub(paid) <= 0 || f.paid.CompareAndSwap(paid, at) {
			return
		}
	}
}

// price returns how long n bytes pay for, in ticks as 32.32, if each pays for perByte. The
// account is then ahead of stamp by no more than credit. A pause has not been paid for
// yet, so during one that counts from its start.
func (f *flow) price(n int, perByte uint64, credit int64, stamp clock.Stamp) int64 {
	from := stamp.Start()
	if w := f.wait.Load(); w&waiting == 0 {
		from = from.Add(-max(0, agoExactly(w, from)))
	}
	room := credit - f.paid.Load().Sub(from)
	switch {
	case n <= 0 || room <= 0:
		return 0
	case uint64(n) > uint64(room)/perByte:
		return room
	}
	return int64(uint64(n) * perByte)
}

// refresh moves wait forward to oldest if it is older, so that its age does not overflow. After
// such a long pause, earlier waits no longer count.
func (f *flow) refresh(oldest clock.Stamp) {
	switch w := f.wait.Load(); {
	case ago(w, oldest.Bits()) <= 0:
	case w&waiting != 0:
		f.rewait(oldest)
	default:
		f.repay(oldest.Start())
	}
}

// wordOf returns what [flow] keeps in wait for a tick, without the flag waiting.
func wordOf(stamp clock.Stamp) uint32 { return stamp.Bits() << 1 }

// ago returns how many ticks before another one the tick in w was, of which the low bits are
// given. It is negative if the tick in w was later. The distance must be less than 2³⁰.
func ago(w, bits uint32) int32 { return int32(bits<<1-w&^waiting) >> 1 }

// agoExactly returns the time from the start of the tick in w to the instant at,
// in ticks as 32.32.
func agoExactly(w uint32, at clock.Instant) int64 {
	return ticks(int64(ago(w, at.Bits()))) + at.Fraction()
}

// ticks returns n ticks as 32.32.
func ticks(n int64) int64 { return n << 32 }

// state is the state of a connection: flags, and above them the misses of the heartbeat.
type state struct{ words.Uint32 }

// The flags; conn.go says what they mean.
const (
	live = 1 << iota
	expired
	asking
	pinging
	unanswered
	granted
	overdueIn
	overdueOut
	over
	telling
	ending
	pingOut
	pongIn
	evicting
	entering
	dismissed
	keptIn
	keptOut

	missUnit = 1 << 18
	missMask = 0x7f * missUnit
)

// misses returns the number of misses in a state.
func misses(s uint32) int { return int(s & missMask / missUnit) }

// start begins Track. It returns false if that has begun before.
func (s *state) start() bool { return s.CompareAndSwap(0, entering) }

// drop clears some bits. It reports whether any was set. Usually none is, and that costs a load.
func (s *state) drop(bits uint32) bool { return s.Load()&bits != 0 && s.And(^bits)&bits != 0 }

// change replaces the state by what next returns for it, unless ok is false. It returns the
// state before, and ok.
func (s *state) change(next func(was uint32) (is uint32, ok bool)) (was uint32, ok bool) {
	for {
		was = s.Load()
		is, ok := next(was)
		if !ok || is == was || s.CompareAndSwap(was, is) {
			return was, ok
		}
	}
}

// end ends the tracking and returns the state before. ok is false if it has already ended,
// or not begun.
func (s *state) end() (was uint32, ok bool) {
	return s.change(func(was uint32) (uint32, bool) {
		is := uint32(over)
		if was&expired != 0 {
			is |= ending // bytes come too late, forever
		}
		return is, was&(live|expired) != 0
	})
}

// move sets and clears bits if all bits in need are set, and no bit in set is. It reports
// whether it did.
func (s *state) move(need, set, clear uint32) bool {
	_, ok := s.change(func(was uint32) (uint32, bool) { return was&^clear | set, was&(need|set) == need })
	return ok
}

// finish replaces live by the bits in become, if all bits in need are set. It reports
// whether it did.
func (s *state) finish(need, become uint32) bool {
	_, ok := s.change(func(was uint32) (uint32, bool) { return was&^live | become, was&need == need })
	return ok
}

// spare clears ending, unless the connection has ended.
func (s *state) spare() { s.move(live|ending, 0, ending) }
