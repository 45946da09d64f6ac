package idlenet

import "sync/atomic"

// A credit is the number of acknowledged bytes that have been reported to the
// tracker. Only minimum write rates need it, so it is not used until a policy has
// one.
//
// Where the kernel counts acknowledged bytes, Write does not report the bytes
// that it hands to the kernel. Instead examine reports those that the peer has
// acknowledged, including bytes of a write that is still under way. Bytes that
// merely wait in the kernel do not count. This costs the writer nothing.
type credit struct{ credited atomic.Uint64 }

// startCredit makes acknowledged bytes count from now on, if the kernel tells
// their number. It has no effect after the first call.
func (c *Conn) startCredit() {
	if c.flags.Or(crediting)&crediting != 0 {
		return
	}
	if r := c.inspect(); r.AckedKnown {
		c.credited.Store(r.Acked)
		c.flags.Or(kernelCounts)
	} else {
		c.flags.Or(smallSteps)
	}
}

// takeCredit returns how many of the acked bytes have not been reported before,
// and records them as reported.
func (c *Conn) takeCredit(acked uint64) int {
	if c.flags.Load()&kernelCounts == 0 {
		return 0
	}
	for {
		known := c.credited.Load()
		if acked <= known {
			return 0
		}
		if c.credited.CompareAndSwap(known, acked) {
			return int(acked - known)
		}
	}
}
