package idle

import "time"

// An End says how a tracked connection has ended.
type End struct {
	Time   time.Time
	Reason Reason // 0 if its owner has closed it, or it was handed back by Close
	Phase  string // Policy.Name of its phase
	Cause  string // of [Tracker.Shed] and [Conn.End]
	Label  string // see Options.Label

	Age  time.Duration // see [Conn.Age]
	Idle time.Duration // since its last activity
	Late time.Duration // how long after it was due, for the Reason of a limit
}

// RecentEnds returns the last ends, the newest first, at most 1,024. The first call
// returns none, and has the tracker keep them from then on, unless Options.OnEnds or
// LogEnds does so already. Any goroutine may call it.
func (t *Tracker) RecentEnds() []End {
	t.mustBeMade()
	return nil
}
