package kernel

import "sync/atomic"

// A Credit counts the bytes that a peer has acknowledged, so that each of them is
// reported to the tracker once.
//
// For a minimum rate only the time of waits counts. So only bytes count that are
// acknowledged during waits: call Take and drop the result when one begins.
type Credit struct{ taken atomic.Uint64 }

// Take returns by how many bytes acked exceeds the highest number given before.
func (c *Credit) Take(acked uint64) int {
	for {
		before := c.taken.Load()
		if acked <= before {
			return 0
		}
		if c.taken.CompareAndSwap(before, acked) {
			return int(acked - before)
		}
	}
}
