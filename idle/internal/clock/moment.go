package clock

import "time"

// A Moment is the time at which a connection is checked. Most checks only find that nothing is
// due. They use a Moment with nothing but Now, which assumes that every stamp ended one tick later.
// Before a connection is pinged or ended, a Moment of a Clock asks that when the stamp really
// ended.
type Moment struct {
	Now     int64         // connections whose deadline is this tick or earlier may be ended
	Elapsed time.Duration // Clock.Elapsed at this moment; not set without a clock
	clock   *Clock
}

// Moment returns the current moment.
func (k *Clock) Moment() Moment {
	elapsed := k.Elapsed()
	return Moment{Now: int64((elapsed - k.Slack) / k.Tick), Elapsed: elapsed, clock: k}
}

// After returns the time from the start of the given tick to m, which must be of a clock.
func (m Moment) After(tick int64) time.Duration { return m.Elapsed - time.Duration(tick)*m.clock.Tick }

// Tick returns the tick of a stamp. The stamp must be at most 2³¹ ticks old.
func (m Moment) Tick(stamp Stamp) int64 { return m.Now - int64(int32(uint32(m.Now)-stamp.bits)) }

// End returns the first tick that began after every activity in the given tick.
func (m Moment) End(tick int64) int64 {
	if m.clock == nil {
		return tick + 1
	}
	return m.clock.End(tick)
}

// Since returns how long ago all activities with the given stamp were, at least. The stamp may
// have been in use for a slack longer than End knows. If it is from StampAgo, the result may be
// too long by a tick.
func (m Moment) Since(stamp Stamp) time.Duration {
	return max(0, m.After(m.End(m.Tick(stamp)))-m.clock.Slack)
}
