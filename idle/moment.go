package idle

import (
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

const (
	never = 1<<63 - 1 // a tick that does not come

	// maxTicks is the longest timeout in ticks. Stamps have 31 or 32 bits.
	maxTicks = clock.MaxTicks
)

// A moment is the time at which a connection is looked at. Most looks only find
// that nothing is due. They use a moment without a clock, which assumes that
// every stamp ended one tick later. Before anything is done to a connection, a
// moment with a clock asks it when the stamp really ended.
type moment struct {
	now     int64         // connections whose deadline is this tick or earlier may be ended
	elapsed time.Duration // clock.Elapsed at this moment; not set without a clock
	clock   *clock.Clock
}

// momentOf returns the current moment, with the clock.
func momentOf(k *clock.Clock) moment {
	elapsed := k.Elapsed()
	return moment{now: int64((elapsed - k.Slack) / k.Tick), elapsed: elapsed, clock: k}
}

// after returns the time from the start of the given tick to m.
func (m moment) after(tick int64) time.Duration { return m.elapsed - time.Duration(tick)*m.clock.Tick }

// tick returns the tick of a stamp. The stamp must be at most 2³¹ ticks old.
func (m moment) tick(stamp clock.Stamp) int64 { return m.tickOf(stamp.Bits()) }

// tickOf returns the tick with the given low 32 bits.
func (m moment) tickOf(bits uint32) int64 { return m.now - int64(int32(uint32(m.now)-bits)) }

// end returns the first tick that began after every activity in the given tick.
func (m moment) end(tick int64) int64 {
	if m.clock == nil {
		return tick + 1
	}
	return m.clock.End(tick)
}

// since returns how long ago all activities with the given stamp were, at least. The
// stamp may have been in use for a slack longer than end knows. If it was computed from
// SocketState, the result may be too long by a tick.
func (m moment) since(stamp clock.Stamp) time.Duration {
	return max(0, m.after(m.end(m.tick(stamp)))-m.clock.Slack)
}
