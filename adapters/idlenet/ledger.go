package idlenet

import "sync/atomic"

// A ledger knows up to which byte the peer has been credited for taking what it
// was sent. Only the least speed of writing needs it, so it is not opened before
// a policy asks for that.
//
// Where the kernel counts, writes are not credited as they are made: examine finds
// out what the peer has taken by then, those bytes included that it took of a
// write which is still under way, and not those that only wait in the kernel. It
// costs the writer nothing.
type ledger struct{ credited atomic.Uint64 }

// openLedger begins to credit the peer, if that has not begun and the kernel
// counts.
func (c *Conn) openLedger() {
	if c.marks.Or(ledgered)&ledgered != 0 {
		return
	}
	if r := c.report(); r.AckedKnown {
		c.credited.Store(r.Acked)
		c.marks.Or(counted)
	}
}

// claim returns how many of the bytes that the peer has taken by now are not
// credited yet, and counts them as credited.
func (c *Conn) claim(taken uint64) int {
	if c.marks.Load()&counted == 0 {
		return 0
	}
	for {
		known := c.credited.Load()
		if taken <= known {
			return 0
		}
		if c.credited.CompareAndSwap(known, taken) {
			return int(taken - known)
		}
	}
}
