package clock

import "sync/atomic"

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
func (s Stamp) Asleep() bool { return s.bits == 0 }

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

// An AtomicStamp is a Stamp that several goroutines may use. The zero AtomicStamp holds the
// zero Stamp.
type AtomicStamp atomic.Uint32

// Load returns the stamp.
func (a *AtomicStamp) Load() Stamp { return Stamp{(*atomic.Uint32)(a).Load()} }

// Store sets the stamp.
func (a *AtomicStamp) Store(s Stamp) { (*atomic.Uint32)(a).Store(s.bits) }

// Raise moves the stamp forward to s, never back.
func (a *AtomicStamp) Raise(s Stamp) {
	for {
		have := a.Load()
		if s.Sub(have) <= 0 || (*atomic.Uint32)(a).CompareAndSwap(have.bits, s.bits) {
			return
		}
	}
}
