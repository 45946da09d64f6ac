package clock

import "github.com/idlewheel/idlewheel/idle/internal/words"

// A Stamp is a tick as a connection stores it, in 32 bits. The zero Stamp is no tick: it is
// what the copies of a sleeping clock hold. Only [StampOf] makes other stamps, so none of
// an activity is zero.
//
// Stamps wrap around. They can be compared if they are less than 2³¹ ticks apart.
type Stamp struct{ bits uint32 }

// StampOf returns the stamp of a tick. A tick whose low 32 bits are 0 gets the stamp of the
// next tick. That makes a timeout later, never earlier.
func StampOf(tick int64) Stamp {
	s := Stamp{uint32(tick)}
	if s == (Stamp{}) {
		s.bits++
	}
	return s
}

// Asleep reports whether s is zero, which is so if it was loaded from a copy of a sleeping
// clock.
func (s Stamp) Asleep() bool { return s == Stamp{} }

// Bits returns the low 32 bits of the tick.
func (s Stamp) Bits() uint32 { return s.bits }

// Sub returns the number of ticks from t to s.
func (s Stamp) Sub(t Stamp) int32 { return int32(s.bits - t.bits) }

// Later returns the later of s and t.
func (s Stamp) Later(t Stamp) Stamp {
	if t.Sub(s) > 0 {
		return t
	}
	return s
}

// Before returns the stamp of the tick before s.
func (s Stamp) Before() Stamp {
	if s.bits--; s == (Stamp{}) {
		s.bits--
	}
	return s
}

// Start returns the start of the tick.
func (s Stamp) Start() Instant { return StartOf(s.bits) }

// An AtomicStamp is a Stamp that several goroutines may use. The zero AtomicStamp holds the
// zero Stamp.
type AtomicStamp words.Uint32

func (a *AtomicStamp) raw() *words.Uint32 { return (*words.Uint32)(a) }

// Load returns the stamp.
func (a *AtomicStamp) Load() Stamp { return Stamp{a.raw().Load()} }

// Store sets the stamp.
func (a *AtomicStamp) Store(s Stamp) { a.raw().Store(s.bits) }

// Raise moves the stamp forward to s, never back.
func (a *AtomicStamp) Raise(s Stamp) {
	for {
		have := a.Load()
		if s.Sub(have) <= 0 || a.raw().CompareAndSwap(have.bits, s.bits) {
			return
		}
	}
}

// An Instant is a time in ticks, as a 32.32 fixed-point number. Its ticks wrap around as
// those of stamps do.
type Instant uint64

// StartOf returns the start of the tick with the given low 32 bits.
func StartOf(bits uint32) Instant { return Instant(bits) << 32 }

// Bits returns the low 32 bits of the tick of i.
func (i Instant) Bits() uint32 { return uint32(i >> 32) }

// Fraction returns the part of the tick that has passed at i, in 2⁻³² ticks.
func (i Instant) Fraction() int64 { return int64(uint32(i)) }

// Sub returns the time from j to i, in ticks as 32.32.
func (i Instant) Sub(j Instant) int64 { return int64(i - j) }

// Add returns the instant d after i, in ticks as 32.32.
func (i Instant) Add(d int64) Instant { return i + Instant(d) }

// Later returns the later of i and j.
func (i Instant) Later(j Instant) Instant {
	if j.Sub(i) > 0 {
		return j
	}
	return i
}

// An AtomicInstant is an Instant that several goroutines may use.
type AtomicInstant struct{ v words.Uint64 }

// Load returns the instant.
func (a *AtomicInstant) Load() Instant { return Instant(a.v.Load()) }

// Store sets the instant.
func (a *AtomicInstant) Store(i Instant) { a.v.Store(uint64(i)) }

// Add moves the instant by d, in ticks as 32.32.
func (a *AtomicInstant) Add(d int64) { a.v.Add(uint64(d)) }

// CompareAndSwap replaces old by new. It reports whether the instant was old.
func (a *AtomicInstant) CompareAndSwap(old, new Instant) bool {
	return a.v.CompareAndSwap(uint64(old), uint64(new))
}
